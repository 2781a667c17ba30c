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

Tensor leaf(Random& random, const Shape& shape) {
  return random.tensor(shape, DType::float64).set_requires_grad();
}

TEST(AutogradLayerNormTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], in[1], in[2]);
  };
  for (const Shape& shape : {Shape{4}, Shape{3, 4}, Shape{2, 2, 4}}) {
    const std::vector<Tensor> inputs{leaf(random, shape), leaf(random, {4}), leaf(random, {4})};
    EXPECT_EQ(gradient_check(f, inputs), "") << shape;
    EXPECT_EQ(gradient_gradient_check(f, inputs), "") << shape;
  }
}

TEST(AutogradLayerNormTest, WeightAndBiasMayBeAbsent) {
  Random random(2);
  const Tensor x = leaf(random, {3, 4}), vector = leaf(random, {4});
  const DifferentiableFunction bare = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0]);
  };
  const DifferentiableFunction scaled = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], in[1]);
  };
  const DifferentiableFunction shifted = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], {}, in[1]);
  };
  EXPECT_EQ(gradient_check(bare, {x}), "");
  EXPECT_EQ(gradient_gradient_check(bare, {x}), "");
  EXPECT_EQ(gradient_check(scaled, {x, vector}), "");
  EXPECT_EQ(gradient_gradient_check(scaled, {x, vector}), "");
  EXPECT_EQ(gradient_check(shifted, {x, vector}), "");
  EXPECT_EQ(gradient_gradient_check(shifted, {x, vector}), "");
}

TEST(AutogradLayerNormTest, EachParameterAloneGetsAGradient) {
  Random random(3);
  const DifferentiableFunction f = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], in[1], in[2]);
  };
  for (std::size_t wanted = 0; wanted < 3; ++wanted) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : {Shape{3, 4}, Shape{4}, Shape{4}})
      inputs.push_back(random.tensor(shape, DType::float64));
    inputs[wanted].set_requires_grad();
    EXPECT_EQ(gradient_check(f, inputs), "") << "input " << wanted;
    EXPECT_EQ(gradient_gradient_check(f, inputs), "") << "input " << wanted;
  }
}

TEST(AutogradLayerNormTest, StridedInputsGiveTheSameGradients) {
  Random random(4);
  const Tensor values = random.tensor({3, 5}), weights = random.tensor({3, 5});
  const Tensor x = values.detach().set_requires_grad();
  const Tensor strided = random.strided(values).detach().set_requires_grad();
  layer_norm(x).backward(weights);
  layer_norm(strided).backward(random.strided(weights));
  expect_close(strided.grad(), x.grad());
}

TEST(AutogradLayerNormTest, GradientsKeepThe16BitDtypes) {
  Random random(5);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random.tensor({3, 4}, dtype).set_requires_grad();
    const Tensor weight = random.tensor({4}, dtype).set_requires_grad();
    sum(layer_norm(x, weight)).backward();
    EXPECT_EQ(x.grad().dtype(), dtype);
    EXPECT_EQ(weight.grad().dtype(), dtype);
  }
}

TEST(AutogradLayerNormTest, RecordedGradientsOfHalvesEqualTheFusedOnes) {
  Random random(7);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random.tensor({3, 4}, 99, 101, dtype).set_requires_grad();
    const Tensor weight = random.tensor({4}, dtype).set_requires_grad();
    const Tensor bias = random.tensor({4}).set_requires_grad();
    const Tensor weights = random.tensor({3, 4}, dtype);
    const Tensor y = layer_norm(x, weight, bias);
    for (const Tensor& input : {x, weight, bias}) {
      const Tensor fused = grad(y, input, weights, {.retain_graph = true});
      const Tensor recorded = grad(y, input, weights, {.create_graph = true});
      EXPECT_EQ(recorded.dtype(), input.dtype());
      expect_close(recorded, fused, 64);
    }
  }
}

TEST(AutogradLayerNormTest, WiderParametersGetGradientsOfTheirOwnDtype) {
  Random random(6);
  const Tensor x = random.tensor({3, 4}, DType::bfloat16).set_requires_grad();
  const Tensor weight = random.tensor({4}).set_requires_grad();
  const Tensor bias = random.tensor({4}).set_requires_grad();
  sum(layer_norm(x, weight, bias)).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bfloat16);
  EXPECT_EQ(weight.grad().dtype(), DType::float32);
  EXPECT_EQ(bias.grad().dtype(), DType::float32);
}

TEST(AutogradLayerNormTest, NoRowsGiveZeroGradients) {
  const Tensor weight = ones({4}).set_requires_grad();
  sum(layer_norm(zeros({0, 4}), weight)).backward();
  expect_close(weight.grad(), zeros({4}));
}

TEST(AutogradLayerNormTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>([] { layer_norm(zeros({})); }, "layer_norm: ");
  expect_throws<ShapeError>([&] { layer_norm(x, zeros({2})); }, "layer_norm: ");
  expect_throws<ShapeError>([&] { layer_norm(x, {}, zeros({3, 1})); }, "layer_norm: ");
  expect_throws<DTypeError>(
      [] {
        layer_norm(zeros({2, 3}, {.dtype = DType::int32}));
      },
      "layer_norm");
  expect_throws<DeviceError>(
      [&] { layer_norm(x, zeros({3}, {.device = Device(DeviceType::cpu, 1)})); }, "layer_norm");
}

}  // namespace
}  // namespace ringrad
