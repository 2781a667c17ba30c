// The example of an operator with custom kernels agrees with the same formula in float64 on the
// CPU.

#include <gtest/gtest.h>

#include "ringrad/examples/own_kernel/rms_norm.h"
#include "ringrad/ringrad.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

class OwnKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::num_gpus() == 0) GTEST_SKIP() << "skipped: no GPU";
  }
};

Tensor composed(const Tensor& x) { return x / sqrt(mean(x * x, {-1}, true) + 1e-6); }

TEST_F(OwnKernelTest, AgreesWithTheFormula) {
  for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 256}, Shape{4, 1000}}) {
    SCOPED_TRACE(concat(shape));
    Tensor x = randn(shape, {.device = "cuda"}), reference = to(to(x, Device()), DType::float64);
    const Tensor weight = randn(shape, {.device = "cuda"});
    x.set_requires_grad();
    reference.set_requires_grad();
    const Tensor y = ::rms_norm(x), expected = composed(reference);
    expect_close(y, expected);
    sum(y * weight).backward();
    sum(expected * to(to(weight, Device()), DType::float64)).backward();
    expect_close(x.grad(), reference.grad());
  }
}

TEST_F(OwnKernelTest, TakesGradientsThatLieOtherwise) {
  Tensor x = randn({4, 5}, {.device = "cuda"}), reference = to(to(x, Device()), DType::float64);
  const Tensor weight = randn({5, 4}, {.device = "cuda"});
  x.set_requires_grad();
  reference.set_requires_grad();
  sum(transpose(::rms_norm(x), 0, 1) * weight).backward();
  sum(transpose(composed(reference), 0, 1) * to(to(weight, Device()), DType::float64)).backward();
  expect_close(x.grad(), reference.grad());
}

TEST_F(OwnKernelTest, RefusesWhatItsKernelsCannotRead) {
  const Options gpu{.device = "cuda"};
  for (const Tensor& x : {ones({2, 3}), ones({2, 3}, {.dtype = DType::float64, .device = "cuda"}),
                          transpose(ones({2, 3}, gpu), 0, 1), ones({2, 0}, gpu), ones({}, gpu)})
    expect_throws<ValueError>([&] { ::rms_norm(x); }, "x must be float32 and contiguous");
}

TEST_F(OwnKernelTest, ASecondDerivativeIsRefused) {
  Tensor x = ones({2, 3}, {.device = "cuda"});
  x.set_requires_grad();
  const Tensor loss = sum(::rms_norm(x));
  expect_throws<AutogradError>([&] { loss.backward({}, {.create_graph = true}); },
                               "rms_norm: its gradient must not be differentiated again");
}

}  // namespace
}  // namespace ringrad
