// Solves equations, with the only library that links OpenBLAS.

#include <cstdio>

#include "ringrad/linalg.h"
#include "ringrad/ringrad.h"

int main() {
  const ringrad::Tensor a = ringrad::tensor({{2., 1.}, {1., 3.}}).set_requires_grad();
  const ringrad::Tensor x = ringrad::linalg::solve(a, ringrad::tensor({3., 5.}));
  ringrad::sum(x).backward();
  std::printf("x[1] %.1f gradient %.2f\n", x[1].item<double>(), a.grad()[0][0].item<double>());
}
