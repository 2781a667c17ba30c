#include "ringrad/kernels/loss/pointwise_loss.h"

#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/pointwise_loss.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr PointwiseLoss kLosses[] = {PointwiseLoss::mse, PointwiseLoss::l1,
                                     PointwiseLoss::bce_with_logits};
constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

double value(PointwiseLoss loss, double x, double t, double w) {
  if (loss == PointwiseLoss::mse) return reference::squared_error(x, t);
  if (loss == PointwiseLoss::l1) return reference::absolute_error(x, t);
  return reference::binary_cross_entropy(x, t, w);
}

double derivative(PointwiseLoss loss, double x, double t, double w) {
  if (loss == PointwiseLoss::mse) return reference::squared_error_derivative(x, t);
  if (loss == PointwiseLoss::l1) return reference::absolute_error_derivative(x, t);
  return reference::binary_cross_entropy_derivative(x, t, w);
}

TEST(PointwiseLossTest, AgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 90; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const DType dtype = kFloats[seed % 4];
    const PointwiseLoss loss = kLosses[seed % 3];
    // Some large enough for several blocks and threads.
    const Shape shape = seed % 10 == 0 ? Shape{50, 1000} : random.shape(4, 6);
    const Tensor x = random.tensor(shape, -3, 3, dtype), t = random.tensor(shape, 0, 1, dtype);
    const bool weighted = loss == PointwiseLoss::bce_with_logits && random.chance(0.5);
    const Tensor w =
        weighted ? random.tensor(shape.empty() ? Shape{} : Shape{shape.back()}, 0.5, 2, dtype)
                 : Tensor();
    const auto xs = x.to_vector<double>(), ts = t.to_vector<double>();
    const auto ws =
        weighted ? view::expand(w, shape).to_vector<double>() : std::vector<double>(xs.size(), 1);
    const auto n = static_cast<double>(xs.size());
    std::vector<double> values, derivatives;
    double sum = 0;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      values.push_back(value(loss, xs[i], ts[i], ws[i]));
      derivatives.push_back(derivative(loss, xs[i], ts[i], ws[i]));
      sum += values.back();
    }
    const Tensor sx = random.strided(x), st = random.strided(t);
    const Tensor one = ones({}, {.dtype = dtype});
    expect_close(pointwise_loss(loss, sx, t, w, Reduction::none), values, 64);
    expect_close(pointwise_loss(loss, x, st, w, Reduction::mean), {sum / n}, 64);
    // In float16 the sum of a large tensor has no representation.
    if (n < 10000) expect_close(pointwise_loss(loss, x, t, w, Reduction::sum), {sum}, 256);

    expect_close(pointwise_loss_backward(loss, one, x, t, w, Reduction::sum), derivatives, 64);
    expect_close(
        pointwise_loss_backward(loss, ones(shape, {.dtype = dtype}), sx, st, w, Reduction::none),
        derivatives, 64);
    for (double& d : derivatives) d /= n;
    expect_close(pointwise_loss_backward(loss, one, x, st, w, Reduction::mean), derivatives, 64);
  }
}

TEST(PointwiseLossTest, IsZeroWithoutGradientAtTheTarget) {
  const Tensor x = tensor({{1., -2.}, {0., 3.}});
  for (const PointwiseLoss loss : {PointwiseLoss::mse, PointwiseLoss::l1}) {
    expect_close(pointwise_loss(loss, x, x, {}, Reduction::sum), {0});
    expect_close(pointwise_loss_backward(loss, ones({}), x, x, {}, Reduction::sum), zeros({2, 2}));
  }
}

TEST(PointwiseLossTest, StaysFiniteForLargeLogits) {
  const Tensor x = tensor({1000.f, -1000.f, 1000.f, -1000.f}), t = tensor({1.f, 0.f, 0.f, 1.f});
  const auto loss = PointwiseLoss::bce_with_logits;
  expect_close(pointwise_loss(loss, x, t, {}, Reduction::none), {0, 0, 1000, 1000});
  expect_close(pointwise_loss_backward(loss, ones({4}), x, t, {}, Reduction::none), {0, 0, 1, -1});
}

TEST(PointwiseLossTest, WeighsEachElementByItsGradient) {
  const Tensor x = tensor({3.f, 4.f}), t = zeros({2});
  expect_close(
      pointwise_loss_backward(PointwiseLoss::mse, tensor({2.f, -1.f}), x, t, {}, Reduction::none),
      {12, -8});
  expect_close(pointwise_loss_backward(PointwiseLoss::mse, full({}, 10), x, t, {}, Reduction::mean),
               {30, 40});
}

TEST(PointwiseLossTest, DoesNotDependOnTheNumberOfThreads) {
  Random random(1);
  const Tensor x = random.tensor({300, 1001}), t = random.tensor({300, 1001});
  const auto mean = [&](int threads) {
    const Team team(threads);
    return pointwise_loss(PointwiseLoss::mse, x, t, {}, Reduction::mean);
  };
  expect_same_bits(mean(1), mean(2));
}

TEST(PointwiseLossTest, ThrowsForArgumentsThatDoNotFit) {
  const auto loss = [](const Tensor& x, const Tensor& t, const Tensor& w = {}) {
    return [=] { pointwise_loss(PointwiseLoss::bce_with_logits, x, t, w, Reduction::mean); };
  };
  expect_throws<ShapeError>(
      loss(zeros({2, 3}), zeros({3})),
      "bce_with_logits: x and targets must have one shape; got (2, 3) and (3,)");
  expect_throws<DTypeError>(loss(zeros({2}), zeros({2}, {.dtype = DType::float64})),
                            "float32 and float64");
  expect_throws<DTypeError>(loss(zeros({2}, {.dtype = DType::int32}), zeros({2})), "int32");
  expect_throws<ShapeError>(loss(zeros({2, 3}), zeros({2, 3}), ones({2})),
                            "positive_weight must broadcast to x; got (2,) and (2, 3)");
  expect_throws<DeviceError>(loss(zeros({2}), zeros({2}, {.device = "cpu:1"})), "cpu:1");
}

}  // namespace
}  // namespace ringrad::kernels
