#include "ringrad/autograd/loss/pointwise_loss.h"

#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

// Checks a loss of {x, targets}, with gradients of both and of x alone, which take different code
// paths.
void expect_gradients(const DifferentiableFunction& loss, Random& random) {
  const Tensor x = random.tensor({3, 4}, DType::float64).set_requires_grad();
  const Tensor targets = random.tensor({3, 4}, 0, 1, DType::float64);
  EXPECT_EQ(gradient_check(loss, {x, targets}), "");
  EXPECT_EQ(gradient_gradient_check(loss, {x, targets}), "");
  targets.set_requires_grad();
  EXPECT_EQ(gradient_check(loss, {x, targets}), "");
  EXPECT_EQ(gradient_gradient_check(loss, {x, targets}), "");
}

TEST(PointwiseLossTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const Tensor weight = random.tensor({4}, 0.5, 2, DType::float64);
  for (const Reduction reduction : kReductions) {
    using Inputs = const std::vector<Tensor>&;
    expect_gradients([&](Inputs in) { return mse_loss(in[0], in[1], reduction); }, random);
    expect_gradients([&](Inputs in) { return l1_loss(in[0], in[1], reduction); }, random);
    expect_gradients([&](Inputs in) { return huber_loss(in[0], in[1], reduction); }, random);
    expect_gradients([&](Inputs in) { return huber_loss(in[0], in[1], reduction, 0.3); }, random);
    expect_gradients([&](Inputs in) { return smooth_l1_loss(in[0], in[1], reduction, 0.3); },
                     random);
    expect_gradients([&](Inputs in) { return kl_div(in[0], in[1], reduction); }, random);
    expect_gradients([&](Inputs in) { return kl_div(in[0], in[1], reduction, true); }, random);
    expect_gradients([&](Inputs in) { return bce_with_logits(in[0], in[1], {}, reduction); },
                     random);
    expect_gradients([&](Inputs in) { return bce_with_logits(in[0], in[1], weight, reduction); },
                     random);
  }
}

// d loss / d t = (w - 1) log(1 + exp(-x)) - x is smooth in x, also at 0.
TEST(PointwiseLossTest, TheSecondDerivativeOfWeightedCrossEntropyHoldsAtZero) {
  const Tensor x = tensor({0., 0., 1., -1.}).set_requires_grad();
  const Tensor t = tensor({0.25, 1, 0, 0.5}).set_requires_grad();
  const Tensor w = tensor({3, 0.5, 2, 1});
  const Tensor loss = bce_with_logits(x, t, w, Reduction::sum);
  const Tensor by_t = grad(loss, t, {}, {.create_graph = true});
  expect_close(by_t, (w - 1) * log1p(exp(-x.detach())) - x.detach());
  const Tensor by_t_and_x = grad(sum(by_t), x, {}, {.create_graph = true});
  const Tensor p = sigmoid(x.detach());
  expect_close(by_t_and_x, (w - 1) * (p - 1) - 1);
  expect_close(grad(sum(by_t_and_x), x), (w - 1) * p * (1 - p));
}

TEST(PointwiseLossTest, EqualsItsCompositionOfSmallerOperators) {
  Random random(2);
  const Tensor t = random.tensor({5, 6}, 0, 1);
  const auto expect_equal = [&](auto fused, auto composed) {
    const Tensor x = random.tensor({5, 6}).set_requires_grad();
    const Tensor same = x.detach().set_requires_grad();
    const Tensor a = fused(x), b = composed(same);
    expect_close(a, b);
    a.backward();
    b.backward();
    expect_close(x.grad(), same.grad());
  };
  using X = const Tensor&;
  expect_equal([&](X x) { return mse_loss(x, t); }, [&](X x) { return mean(square(x - t)); });
  expect_equal([&](X x) { return l1_loss(x, t); }, [&](X x) { return mean(abs(x - t)); });
  expect_equal([&](X x) { return bce_with_logits(x, t); },
               [&](X x) {
                 const Tensor p = sigmoid(x);
                 return mean(-(t * log(p) + (1 - t) * log(1 - p)));
               });
}

// The values of PyTorch 2.15.
TEST(PointwiseLossTest, SpecialValuesAndKinksAreThoseOfPyTorch) {
  const Tensor zero = zeros({6}), x = tensor({0., 1., -1., 2., NAN, INFINITY}).set_requires_grad();
  const Tensor huber = huber_loss(x, zero, Reduction::none);
  expect_close(huber, {0, 0.5, 0.5, 1.5, NAN, INFINITY});
  huber.backward(ones({6}));
  expect_close(x.grad(), {0, 1, -1, 1, NAN, 1});
  const Tensor logs = tensor({-1., -INFINITY, -1., -1.}), t = tensor({0., 0., 1., -1.});
  expect_close(kl_div(logs, t, Reduction::none), {0, NAN, 1, NAN});
  expect_close(smooth_l1_loss(x.detach(), zero, Reduction::none, 0), {0, 1, 1, 2, NAN, INFINITY});
}

TEST(PointwiseLossTest, HalvesComputeInFloat32AndEmptyTensorsHaveNoMean) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = full({500}, 3, {.dtype = dtype}).set_requires_grad();
    const Tensor loss = huber_loss(x, zeros({500}, {.dtype = dtype}), Reduction::sum, 2);
    EXPECT_EQ(loss.dtype(), dtype);
    expect_close(loss, full({}, 2000));
    loss.backward();
    expect_close(x.grad(), full({500}, 2));
  }
  EXPECT_TRUE(std::isnan(kl_div(zeros({0}), zeros({0})).item<double>()));
}

// The values of PyTorch 2.15.
TEST(PointwiseLossTest, SmallAndLargeDistancesKeepTheRangeOfHalves) {
  const DType half = DType::float16;
  const Tensor x = tensor({3., -2., 0.5, 0.01}, half).set_requires_grad();
  const Tensor loss = smooth_l1_loss(x, zeros({4}, {.dtype = half}), Reduction::mean, 0.01);
  loss.backward(full({}, 1024, {.dtype = half}));
  expect_close(x.grad(), tensor({256., -256., 256., 256.}, half));
  expect_close(smooth_l1_loss(x, zeros({4}, {.dtype = half}), Reduction::mean, 1e-8),
               tensor(1.378, half));
  const Tensor large = tensor({60000.}, half), zero = zeros({1}, {.dtype = half});
  expect_close(smooth_l1_loss(large, zero, Reduction::sum, 300), tensor(59840., half));

  const Tensor y = tensor({3., -2., 0., 0.5}).set_requires_grad();
  const Tensor tiny = smooth_l1_loss(y, zeros({4}), Reduction::sum, 1e-46);
  tiny.backward();
  expect_close(tiny, tensor(5.5));
  expect_close(y.grad(), {1, -1, 0, 1});
}

TEST(PointwiseLossTest, RecordedGradientsOfHalvesComputeInFloat32) {
  const Tensor x = tensor({30.}, DType::float16).set_requires_grad();
  const Tensor loss = kl_div(x, x, Reduction::mean, true);  // exp(30) is no number of float16
  const Tensor recorded = grad(loss, x, {}, {.create_graph = true});
  expect_close(recorded, grad(loss, x));
}

TEST(PointwiseLossTest, RefusesAPositiveWeightThatRequiresAGradient) {
  const Tensor x = zeros({2}).set_requires_grad(), w = ones({2}).set_requires_grad();
  expect_throws<AutogradError>([&] { bce_with_logits(x, ones({2}), w); },
                               "positive_weight has no derivative here");
  expect_throws<AutogradError>([&] { bce_with_logits(zeros({2}), ones({2}), w); },
                               "bce_with_logits");
  bce_with_logits(x, ones({2}), w.detach()).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{-0.25, -0.25}));
  const NoGradGuard no_grad;
  EXPECT_NEAR(bce_with_logits(x, ones({2}), w).item(), std::log(2.), 1e-6);
}

TEST(PointwiseLossTest, ThrowsAtTheCallersLine) {
  expect_throws<ValueError>([] { huber_loss(zeros({2}), zeros({2}), Reduction::mean, 0); },
                            "huber_loss: delta must be positive; got 0");
  expect_throws<ValueError>([] { smooth_l1_loss(zeros({2}), zeros({2}), Reduction::mean, -1); },
                            "smooth_l1_loss: beta must not be negative; got -1");
  expect_throws<ShapeError>([] { kl_div(zeros({2}), zeros({3})); }, "kl_div: x and targets");
  expect_throws<ShapeError>([] { mse_loss(zeros({2}), zeros({3})); },
                            "mse_loss: x and targets must have one shape; got (2,) and (3,)");
  expect_throws<DTypeError>([] { l1_loss(zeros({2}), zeros({2}, {.dtype = DType::float64})); },
                            "l1_loss");
  expect_throws<ShapeError>([] { bce_with_logits(zeros({2}), zeros({2}), ones({3})); },
                            "bce_with_logits: positive_weight");
}

}  // namespace
}  // namespace ringrad
