// Compares an operator that has its own kernels with the same formula, composed of Ringrad's
// operators.

#include <cstdlib>
#include <iostream>

#include "ringrad/examples/own_kernel/rms_norm.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

Tensor composed(const Tensor& x) { return x / sqrt(mean(x * x, {-1}, true) + 1e-6); }

// The gradient of sum(f(x)^3).
Tensor gradient_of(Tensor (*f)(const Tensor&), const Tensor& x) {
  Tensor leaf = x.detach();
  leaf.set_requires_grad();
  const Tensor y = f(leaf);
  sum(y * y * y).backward();
  return leaf.grad();
}

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

int main() try {
  if (num_cuda_devices() == 0) {
    std::cerr << "own_kernel: there must be a GPU, real or simulated\n";
    return 1;
  }
  const Tensor x = randn({64, 1000}, {.device = "cuda"});
  const auto own = [](const Tensor& t) { return ::rms_norm(t); };
  std::cout << "largest difference, output: " << largest_difference(own(x), composed(x))
            << "\nlargest difference, gradient: "
            << largest_difference(gradient_of(own, x), gradient_of(composed, x)) << '\n';
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
