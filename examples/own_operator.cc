// An operator of one's own, log(cosh(x)), and the check of its gradient.
//
//     log(cosh(x)) = |x| + log(1 + exp(-2|x|)) - log(2)       does not overflow
//     d log(cosh(x)) / dx = tanh(x)                           and is right at 0, too

#include <cmath>
#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

// Forward and gradient stand together. The gradient is made of differentiable operators, so it can
// be differentiated again.
Tensor log_cosh(const Tensor& x, Where where = Where::current()) {
  const auto forward = [&] {
    const NoGradGuard guard;  // these steps are not recorded: record() says what backward does
    const Tensor size = abs(x, where);
    return size + log1p(exp(-2 * size)) - std::log(2);
  };
  const Tensor y = forward();
  if (needs_grad(x))
    record("log_cosh", where, y, {&x}, [x = save(x)](BackwardContext& context) {
      context.set(0, context.grad_output() * tanh(x.get()));
    });
  return y;
}

// The same with a mistake: a gradient that lacks the one that comes in.
Tensor wrong_log_cosh(const Tensor& x, Where where = Where::current()) {
  const Tensor y = log_cosh(x.detach(), where);
  if (needs_grad(x))
    record("wrong_log_cosh", where, y, {&x},
           [x = save(x)](BackwardContext& context) { context.set(0, tanh(x.get())); });
  return y;
}

void report(const char* what, const std::string& complaint) {
  std::cout << what << ": " << (complaint.empty() ? "correct" : complaint) << '\n';
}

int main() {
  const Tensor x = tensor({-1000., -1., 0., 2.}).set_requires_grad();
  const Tensor y = log_cosh(x);
  sum(y).backward();
  std::cout << "composed   " << log((exp(x.detach()) + exp(-x.detach())) / 2) << '\n'
            << "log_cosh   " << y.detach() << "\ngradient   " << x.grad() << '\n';

  const Tensor point = to(x.detach()[{Slice(1, 4)}], DType::float64).set_requires_grad();
  const auto f = [](const std::vector<Tensor>& in) { return log_cosh(in[0]); };
  const auto wrong = [](const std::vector<Tensor>& in) { return wrong_log_cosh(in[0]); };
  report("gradient", gradient_check(f, {point}));
  report("gradient of the gradient", gradient_gradient_check(f, {point}));
  report("with a mistake", gradient_check(wrong, {point}));
}
