#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/norm/row_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(AutogradRMSNormTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return rms_norm(in[0], in.size() > 1 ? in[1] : Tensor());
  };
  const auto leaf = [&](const Shape& shape, bool learns) {
    return random.tensor(shape, DType::float64).set_requires_grad(learns);
  };
  for (const Shape& shape : {Shape{4}, Shape{3, 4}, Shape{2, 2, 4}})
    for (const auto& inputs :
         {std::vector{leaf(shape, true)}, std::vector{leaf(shape, true), leaf({4}, true)},
          std::vector{leaf(shape, true), leaf({4}, false)},
          std::vector{leaf(shape, false), leaf({4}, true)}}) {
      EXPECT_EQ(gradient_check(f, inputs), "") << shape;
      EXPECT_EQ(gradient_gradient_check(f, inputs), "") << shape;
    }
}

TEST(AutogradRMSNormTest, StridedInputsGiveTheSameGradients) {
  Random random(4);
  const Tensor values = random.tensor({3, 5}), weights = random.tensor({3, 5});
  const Tensor x = values.detach().set_requires_grad();
  const Tensor strided = random.strided(values).detach().set_requires_grad();
  rms_norm(x).backward(weights);
  rms_norm(strided).backward(random.strided(weights));
  expect_close(strided.grad(), x.grad());
}

TEST(AutogradRMSNormTest, RecordedGradientsOfHalvesEqualTheFusedOnes) {
  Random random(7);
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const DType parameter_dtype : {dtype, DType::float32}) {
      const Tensor x = random.tensor({3, 4}, dtype).set_requires_grad();
      const Tensor weight = random.tensor({4}, parameter_dtype).set_requires_grad();
      const Tensor weights = random.tensor({3, 4}, dtype);
      const Tensor y = rms_norm(x, weight);
      EXPECT_EQ(y.dtype(), dtype);
      for (const Tensor& input : {x, weight}) {
        const Tensor fused = grad(y, input, weights, {.retain_graph = true});
        const Tensor recorded = grad(y, input, weights, {.create_graph = true});
        EXPECT_EQ(fused.dtype(), input.dtype());
        EXPECT_EQ(recorded.dtype(), input.dtype());
        expect_close(recorded, fused, 64);
      }
    }
}

TEST(AutogradRMSNormTest, NoRowsGiveZeroGradients) {
  const Tensor weight = ones({4}).set_requires_grad();
  sum(rms_norm(zeros({0, 4}), weight)).backward();
  expect_close(weight.grad(), zeros({4}));
}

TEST(AutogradRMSNormTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>([] { rms_norm(zeros({})); }, "rms_norm: ");
  expect_throws<ShapeError>([&] { rms_norm(x, zeros({2})); }, "rms_norm: ");
  expect_throws<DTypeError>([] { rms_norm(zeros({2, 3}, {.dtype = DType::int32})); }, "rms_norm");
  expect_throws<DeviceError>(
      [&] { rms_norm(x, zeros({3}, {.device = Device(DeviceType::cpu, 1)})); }, "rms_norm");
}

}  // namespace
}  // namespace ringrad
