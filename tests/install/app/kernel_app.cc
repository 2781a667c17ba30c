// An operator with kernels of its own (examples/own_kernel), on a simulated GPU, with the part of
// the library that it needs. tools/test_install writes the include of its header above.

#include <cstdio>

#include "ringrad/autograd/movement.h"

int main() {
  using namespace ringrad;
  const Tensor x = to(tensor({{3., 4.}}), Device("cuda")).set_requires_grad();
  const Tensor y = rms_norm(x);
  y.backward(to(tensor({{1., 0.}}), Device("cuda")));
  for (const float value : y.to_vector<float>()) std::printf("%.3f ", static_cast<double>(value));
  const std::vector<float> gradient = x.grad().to_vector<float>();
  std::printf("%.3f %.3f\n", static_cast<double>(gradient[0]), static_cast<double>(gradient[1]));
}
