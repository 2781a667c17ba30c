#include "ringrad/autograd/norm/batch_norm.h"

#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

Tensor leaf(Random& random, const Shape& shape) {
  return random.tensor(shape, DType::float64).set_requires_grad();
}

std::vector<Tensor> leaves(Random& random, const Shape& x) {
  return {leaf(random, x), leaf(random, {x[1]}), leaf(random, {x[1]})};
}

TEST(AutogradBatchNormTest, TrainingGradientsAgreeWithDifferences) {
  Random random(1);
  for (const Shape& shape : {Shape{5, 2}, Shape{3, 2, 3}, Shape{2, 3, 2, 2}}) {
    for (const bool relu : {false, true}) {
      const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
        return batch_norm(in[0], in[1], in[2], {}, {}, {.relu = relu});
      };
      const std::vector<Tensor> inputs = leaves(random, shape);
      EXPECT_EQ(gradient_check(f, inputs), "") << shape << (relu ? " relu" : "");
      EXPECT_EQ(gradient_gradient_check(f, inputs), "") << shape << (relu ? " relu" : "");
    }
  }
}

TEST(AutogradBatchNormTest, EvaluationGradientsAgreeWithDifferences) {
  Random random(2);
  const Tensor mean = random.tensor({2}, DType::float64);
  const Tensor var = random.tensor({2}, 0.5, 2, DType::float64);
  for (const bool relu : {false, true}) {
    const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
      return batch_norm(in[0], in[1], in[2], mean, var, {.training = false, .relu = relu});
    };
    const std::vector<Tensor> inputs = leaves(random, {3, 2, 2, 2});
    EXPECT_EQ(gradient_check(f, inputs), "") << (relu ? "relu" : "");
    EXPECT_EQ(gradient_gradient_check(f, inputs), "") << (relu ? "relu" : "");
  }
}

TEST(AutogradBatchNormTest, WeightAndBiasMayBeAbsent) {
  Random random(3);
  const Tensor x = leaf(random, {4, 2}), weight = leaf(random, {2}), bias = leaf(random, {2});
  const DifferentiableFunction bare = [](const std::vector<Tensor>& in) {
    return batch_norm(in[0], {}, {}, {}, {}, {.relu = true});
  };
  const DifferentiableFunction scaled = [](const std::vector<Tensor>& in) {
    return batch_norm(in[0], in[1], {}, {}, {});
  };
  const DifferentiableFunction shifted = [](const std::vector<Tensor>& in) {
    return batch_norm(in[0], {}, in[1], {}, {});
  };
  EXPECT_EQ(gradient_check(bare, {x}), "");
  EXPECT_EQ(gradient_gradient_check(bare, {x}), "");
  EXPECT_EQ(gradient_check(scaled, {x, weight}), "");
  EXPECT_EQ(gradient_gradient_check(scaled, {x, weight}), "");
  EXPECT_EQ(gradient_check(shifted, {x, bias}), "");
  EXPECT_EQ(gradient_gradient_check(shifted, {x, bias}), "");
}

// Differentiates with respect to each input in turn; the residual may be x itself.
TEST(AutogradBatchNormTest, GradientsWithAResidualAgreeWithDifferences) {
  Random random(6);
  const Tensor mean = random.tensor({2}, DType::float64);
  const Tensor var = random.tensor({2}, 0.5, 2, DType::float64);
  for (const bool training : {true, false})
    for (const bool relu : {false, true}) {
      const BatchNormOptions options{.training = training, .relu = relu};
      const DifferentiableFunction apart = [&](const std::vector<Tensor>& in) {
        return batch_norm(in[0], in[1], in[2], clone(mean), clone(var), options, in[3]);
      };
      const DifferentiableFunction shared = [&](const std::vector<Tensor>& in) {
        return batch_norm(in[0], in[1], in[2], clone(mean), clone(var), options, in[0]);
      };
      const Shape shape{3, 2, 2, 2};
      std::vector<Tensor> inputs = leaves(random, shape);
      EXPECT_EQ(gradient_check(shared, inputs), "") << training << relu;
      EXPECT_EQ(gradient_gradient_check(shared, inputs), "") << training << relu;
      inputs.push_back(leaf(random, shape));
      EXPECT_EQ(gradient_check(apart, inputs), "") << training << relu;
      EXPECT_EQ(gradient_gradient_check(apart, inputs), "") << training << relu;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::vector<Tensor> one;
        for (const Tensor& input : inputs) one.push_back(input.detach());
        one[i].set_requires_grad();
        EXPECT_EQ(gradient_check(apart, one), "") << training << relu << " input " << i;
      }
    }
}

TEST(AutogradBatchNormTest, AFusedResidualIsAddReluAfterwards) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    Random random(7);
    const Tensor x = random.tensor({4, 3, 5, 5}, dtype), weight = random.tensor({3}),
                 bias = random.tensor({3}), residual = random.tensor({4, 3, 5, 5}, dtype),
                 weights = random.tensor({4, 3, 5, 5}, dtype);
    const auto gradients = [&](bool fused) {
      for (const Tensor& t : {x, weight, bias, residual})
        t.set_requires_grad(false).set_requires_grad();
      const Tensor y = fused ? batch_norm(x, weight, bias, {}, {}, {.relu = true}, residual)
                             : add_relu(batch_norm(x, weight, bias, {}, {}), residual);
      y.backward(weights);
      return std::vector{y.detach(), residual.grad(), x.grad(), weight.grad(), bias.grad()};
    };
    const std::vector<Tensor> fused = gradients(true), apart = gradients(false);
    const bool wide = dtype == DType::float32;  // else the fused sum is rounded once, not twice
    if (wide) expect_same_bits(fused[0], apart[0]);
    if (wide) expect_same_bits(fused[1], apart[1]);
    expect_close(fused[0], apart[0]);
    for (std::size_t i = 1; wide && i < fused.size(); ++i) expect_close(fused[i], apart[i], 256);
  }
}

// The gradient that can be differentiated again consists of other operators.
TEST(AutogradBatchNormTest, RecordedGradientsAreTheFusedOnes) {
  Random random(9);
  const Shape shape{3, 2, 4, 4};
  std::vector<Tensor> inputs = leaves(random, shape);
  inputs.push_back(leaf(random, shape));
  const std::vector<Tensor> weights{random.tensor(shape, DType::float64)};
  for (const bool relu : {false, true}) {
    const auto gradients = [&](bool create_graph) {
      const Tensor y =
          batch_norm(inputs[0], inputs[1], inputs[2], {}, {}, {.relu = relu}, inputs[3]);
      return grad(std::vector{y}, inputs, weights, {.create_graph = create_graph});
    };
    const std::vector<Tensor> fused = gradients(false), recorded = gradients(true);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_close(recorded[i].detach(), fused[i], 256);
  }
}

// With ReLU the backward pass recomputes the sign of y from the residual; without it nothing needs
// the residual.
TEST(AutogradBatchNormTest, KeepsTheResidualOnlyForRelu) {
  Random random(8);
  const Tensor x = random.tensor({3, 2}).set_requires_grad(), residual = random.tensor({3, 2});
  const auto output = [&](bool relu) {
    const Tensor y = batch_norm(x, {}, {}, {}, {}, {.relu = relu}, residual);
    add_(residual, ones({3, 2}));
    return sum(y);
  };
  EXPECT_NO_THROW(output(false).backward());
  EXPECT_THROW(output(true).backward(), AutogradError);
}

TEST(AutogradBatchNormTest, FusedReluIsReluAfterwards) {
  Random random(4);
  const Tensor x = random.tensor({4, 3, 5, 5}), weight = random.tensor({3}),
               bias = random.tensor({3}), weights = random.tensor({4, 3, 5, 5});
  const auto gradients = [&](bool fused) {
    for (const Tensor& t : {x, weight, bias}) t.set_requires_grad(false).set_requires_grad();
    Tensor y = batch_norm(x, weight, bias, {}, {}, {.relu = fused});
    if (!fused) y = relu(y);
    y.backward(weights);
    return std::vector{y.detach(), x.grad(), weight.grad(), bias.grad()};
  };
  const std::vector<Tensor> fused = gradients(true), apart = gradients(false);
  for (std::size_t i = 0; i < fused.size(); ++i) expect_close(fused[i], apart[i], 256);
}

TEST(AutogradBatchNormTest, TrainingUpdatesRunningStatistics) {
  const Tensor x = tensor({{1., 10.}, {3., 30.}});
  const Tensor mean = zeros({2}), var = ones({2});
  batch_norm(x, {}, {}, mean, var, {.momentum = 0.5});
  expect_close(mean, {1, 10});
  expect_close(var, {1.5, 100.5});  // unbiased variances are 2 and 200
}

TEST(AutogradBatchNormTest, ACallThatThrowsLeavesRunningStatisticsAlone) {
  const Tensor mean = zeros({2}), var = ones({2});
  expect_throws<ShapeError>(
      [&] {
        batch_norm(ones({3, 2}), zeros({3}), {}, mean, var);
      },
      "batch_norm: ");
  expect_same_bits(mean, zeros({2}));
  expect_same_bits(var, ones({2}));
}

TEST(AutogradBatchNormTest, RunningStatisticsThatDoNotFitAreLeftAlone) {
  const Tensor x = tensor({{1., 2.}, {3., 5.}}), mean = zeros({2}), flags = zeros({2}) > 0;
  expect_throws<ShapeError>([&] { batch_norm(x, {}, {}, mean, ones({3})); }, "got (3,) for (2,)");
  expect_throws<DTypeError>([&] { batch_norm(x, {}, {}, mean, flags); }, "batch_norm");
  expect_throws<ValueError>([&] { batch_norm(x, {}, {}, mean, expand(ones({1}), {2})); },
                            "each element");
  expect_throws<ValueError>([&] { batch_norm(x, {}, {}, mean, mean); }, "must not share memory");
  expect_close(mean, {0, 0});
}

// In evaluation the gradient of x is grad * weight * rstd, whatever x is.
TEST(AutogradBatchNormTest, AnInfiniteInputHasAFiniteGradientInEvaluation) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor values = tensor({1, 2, kInf, kNan, 3, -kInf});
  for (const Shape& shape : {Shape{3, 2}, Shape{1, 2, 3}, Shape{3, 2, 1, 1}}) {
    const Tensor x = reshape(values, shape).detach().set_requires_grad();
    const Tensor weight = tensor({2., 3.}).set_requires_grad(), mean = zeros({2}),
                 var = full({2}, 4);
    const BatchNormOptions options{.training = false, .eps = 0};
    const Tensor plain = batch_norm(x, weight, {}, mean, var, options);
    expect_close(grad(plain, x, ones(shape)), shape.size() == 3
                                                  ? std::vector<double>{1, 1, 1, 1.5, 1.5, 1.5}
                                                  : std::vector<double>{1, 1.5, 1, 1.5, 1, 1.5});
    BatchNormOptions with_relu = options;
    with_relu.relu = true;
    expect_close(grad(batch_norm(x, weight, {}, mean, var, with_relu), x, ones(shape)),
                 shape.size() == 3 ? std::vector<double>{1, 1, 1, 1.5, 1.5, 0}
                                   : std::vector<double>{1, 1.5, 1, 1.5, 1, 0});
  }
}

TEST(AutogradBatchNormTest, RecordedGradientsOfHalvesEqualTheFusedOnes) {
  Random random(8);
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const bool training : {false, true}) {
      const Tensor x = random.tensor({6, 2}, dtype).set_requires_grad();
      const Tensor weight = random.tensor({2}, dtype).set_requires_grad();
      const Tensor bias = random.tensor({2}, dtype).set_requires_grad();
      const Tensor weights = random.tensor({6, 2}, dtype);
      const Tensor y = batch_norm(x, weight, bias, zeros({2}), ones({2}), {.training = training});
      for (const Tensor& input : {x, weight, bias}) {
        const Tensor fused = grad(y, input, weights, {.retain_graph = true});
        const Tensor recorded = grad(y, input, weights, {.create_graph = true});
        EXPECT_EQ(recorded.dtype(), input.dtype());
        expect_close(recorded, fused, 64);
      }
    }
}

// The bias's gradient is a sum of the incoming one, so only ReLU needs the bias's value.
TEST(AutogradBatchNormTest, BiasMayChangeBeforeBackward) {
  const Tensor x = tensor({{1., 2.}, {3., 5.}}).set_requires_grad();
  const Tensor bias = zeros({2}).set_requires_grad();
  for (const bool relu : {false, true}) {
    const Tensor y = batch_norm(x, {}, bias, {}, {}, {.relu = relu});
    const NoGradGuard guard;
    add_(bias, 1);
    if (relu)
      EXPECT_THROW(y.backward(ones({2, 2})), AutogradError);
    else
      y.backward(ones({2, 2}));
  }
  expect_close(bias.grad(), {2, 2});
}

// The statistics of an evaluation are the caller's buffers, which a training step may change.
TEST(AutogradBatchNormTest, StatisticsChangedBetweenEvaluationAndBackwardAreNoticed) {
  Random random(5);
  const Tensor x = random.tensor({3, 2}).set_requires_grad();
  const Tensor weight = ones({2}).set_requires_grad(), mean = zeros({2}), var = ones({2});
  const Tensor y = batch_norm(x, weight, {}, mean, var, {.training = false});
  add_(mean, ones({2}));
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

TEST(AutogradBatchNormTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({3, 2});
  const auto eval = [](const Tensor& input, const Tensor& mean, const Tensor& var, Where where) {
    return batch_norm(input, {}, {}, mean, var, {.training = false}, {}, where);
  };
  const Where here = Where::current();
  expect_throws<ShapeError>([&] { batch_norm(zeros({3}), {}, {}, {}, {}); }, "batch_norm");
  expect_throws<ShapeError>(
      [&] {
        batch_norm(zeros({1, 2}), {}, {}, {}, {});
      },
      "more than one value per channel; got (1, 2)");
  expect_throws<ShapeError>([&] { batch_norm(zeros({0, 2}), {}, {}, {}, {}); }, "batch_norm");
  expect_throws<ShapeError>([&] { batch_norm(zeros({2, 0}), {}, {}, {}, {}); }, "batch_norm");
  expect_throws<ShapeError>([&] { batch_norm(x, zeros({3}), {}, {}, {}); }, "batch_norm");
  expect_throws<ShapeError>([&] { eval(x, zeros({3}), zeros({3}), here); }, "batch_norm");
  expect_throws<ValueError>([&] { eval(x, {}, {}, here); }, "needs running statistics");
  expect_throws<ValueError>([&] { batch_norm(x, {}, {}, zeros({2}), {}); }, "batch_norm");
  expect_throws<ValueError>([&] { batch_norm(x, {}, {}, {}, zeros({2})); }, "batch_norm");
  expect_throws<ShapeError>([&] { batch_norm(x, {}, {}, {}, {}, {}, zeros({2})); },
                            "batch_norm: the residual must have the shape of x (3, 2); got (2,)");
  expect_throws<DTypeError>(
      [&] {
        batch_norm(zeros({3, 2}, {.dtype = DType::int32}), {}, {}, {}, {});
      },
      "batch_norm");
}

}  // namespace
}  // namespace ringrad
