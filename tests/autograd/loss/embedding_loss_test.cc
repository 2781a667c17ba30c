#include "ringrad/autograd/loss/embedding_loss.h"

#include <cmath>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

std::vector<Tensor> leaves(Random& random, int count, const Shape& shape) {
  std::vector<Tensor> result;
  for (int i = 0; i < count; ++i)
    result.push_back(random.tensor(shape, DType::float64).set_requires_grad());
  return result;
}

TEST(CosineEmbeddingLossTest, MeasuresTheAngle) {
  const Tensor a = tensor({{1., 0.}, {1., 0.}, {1., 0.}, {1., 0.}});
  const Tensor b = tensor({{3., 0.}, {0., 2.}, {3., 4.}, {-1., 0.}});
  const auto losses = [&](double target, double margin) {
    return cosine_embedding_loss(a, b, full({4}, target), margin, Reduction::none);
  };
  expect_close(losses(1, 0), {0, 1, 0.4, 2});
  expect_close(losses(-1, 0.5), {0.5, 0, 0.1, 0});
  expect_close(losses(0, 0), zeros({4}));
}

TEST(CosineEmbeddingLossTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const Tensor targets = tensor({1, -1, 1, -1});
  for (const Reduction reduction : kReductions) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return cosine_embedding_loss(in[0], in[1], targets, -0.9, reduction);
    };
    EXPECT_EQ(gradient_check(f, leaves(random, 2, {4, 3})), "");
    EXPECT_EQ(gradient_gradient_check(f, leaves(random, 2, {4, 3})), "");
  }
  const auto one = [](const std::vector<Tensor>& in) {
    return cosine_embedding_loss(in[0], in[1], ones({}));
  };
  EXPECT_EQ(gradient_check(one, leaves(random, 2, {3})), "");
}

TEST(TripletMarginLossTest, ComparesDistances) {
  const Tensor anchor = zeros({2, 2}), positive = tensor({{3., 4.}, {0., 1.}}),
               negative = tensor({{0., 1.}, {6., 8.}});
  expect_close(triplet_margin_loss(anchor, positive, negative, {.reduction = Reduction::none}),
               {5, 0}, 64);
  expect_close(
      triplet_margin_loss(anchor, positive, negative, {.p = 1, .reduction = Reduction::none}),
      {7, 0}, 64);
  const Tensor near = tensor({{3., 3.9}, {6., 8.}});
  expect_close(
      triplet_margin_loss(anchor, positive, near, {.swap = true, .reduction = Reduction::none}),
      {5.9, 0}, 64);
}

TEST(TripletMarginLossTest, GradientsAgreeWithDifferences) {
  Random random(2);
  for (const double p : {1., 2., 3.})
    for (const bool swap : {false, true})
      for (const Reduction reduction : kReductions) {
        SCOPED_TRACE(concat("p ", p, " swap ", swap));
        const auto f = [=](const std::vector<Tensor>& in) {
          return triplet_margin_loss(in[0], in[1], in[2],
                                     {.margin = 9, .p = p, .swap = swap, .reduction = reduction});
        };
        EXPECT_EQ(gradient_check(f, leaves(random, 3, {2, 3})), "");
        EXPECT_EQ(gradient_gradient_check(f, leaves(random, 3, {2, 3})), "");
      }
}

TEST(EmbeddingLossTest, SumsOfFloat16MayLeaveItsRange) {
  const Tensor x = full({1, 3}, 300, {.dtype = DType::float16});
  expect_close(cosine_embedding_loss(x, x, tensor({1})), {0});
  expect_close(triplet_margin_loss(x, zeros_like(x), x, {.p = 3}), {300 * std::cbrt(3.) + 1});
}

TEST(TripletMarginLossTest, EqualRowsOfFloat16HaveFiniteGradients) {
  const Tensor x = tensor({1.25, -0.25}, DType::float16).set_requires_grad();
  triplet_margin_loss(x, tensor({1.75, 0.5}, DType::float16), x).backward();
  expect_close(x.grad(), {-0.5547, -0.832}, 64);
}

TEST(TripletMarginLossTest, TakesStridedRowsAndHalves) {
  Random random(3);
  const Tensor a = random.tensor({4, 5}), b = random.tensor({4, 5}), c = random.tensor({4, 5});
  expect_close(triplet_margin_loss(random.strided(a), random.strided(b), random.strided(c)),
               triplet_margin_loss(a, b, c));
  const Tensor half = random.tensor({4, 5}, DType::float16).set_requires_grad();
  const Tensor loss =
      triplet_margin_loss(half, half.detach(), random.tensor({4, 5}, DType::float16));
  loss.backward();
  EXPECT_EQ(loss.dtype(), DType::float16);
  EXPECT_EQ(half.grad().dtype(), DType::float16);
}

// The powers of a distance of infinite order would all be 0 or infinite.
TEST(TripletMarginLossTest, TakesTheLargestDifference) {
  const Tensor anchor = tensor({{0., 0.}}), positive = tensor({{3., -4.}}),
               negative = tensor({{1., 1.}});
  const TripletMarginOptions options{.p = std::numeric_limits<double>::infinity(), .eps = 0};
  expect_close(triplet_margin_loss(anchor, positive, negative, options), tensor(4.));
}

TEST(EmbeddingLossTest, OptionsMustBeNumbers) {
  const Tensor x = ones({2, 3}), targets = ones({2});
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_throws<ValueError>([&] { triplet_margin_loss(x, x, x, {.margin = kNan}); },
                            "triplet_margin_loss: margin must be finite; got nan");
  expect_throws<ValueError>([&] { triplet_margin_loss(x, x, x, {.p = kNan}); }, "got nan");
  expect_throws<ValueError>([&] { triplet_margin_loss(x, x, x, {.eps = kNan}); }, "eps must be");
  expect_throws<ValueError>([&] { cosine_embedding_loss(x, x, targets, kNan); },
                            "cosine_embedding_loss: margin must be finite; got nan");
}

TEST(EmbeddingLossTest, ThrowsAtTheCallersLine) {
  const Tensor rows = zeros({2, 3});
  expect_throws<ShapeError>(
      [&] {
        cosine_embedding_loss(rows, zeros({2, 4}), ones({2}));
      },
      "rows must have one shape and at least one axis; got (2, 3) and (2, 4)");
  expect_throws<ShapeError>([&] { cosine_embedding_loss(rows, rows, ones({3})); },
                            "with one target each; got rows (2, 3) and targets (3,)");
  expect_throws<ShapeError>([&] { triplet_margin_loss(rows, rows, zeros({3})); },
                            "triplet_margin_loss: rows must have one shape");
  expect_throws<ValueError>([&] { triplet_margin_loss(rows, rows, rows, {.p = 0}); },
                            "triplet_margin_loss: p must be positive; got 0");
}

}  // namespace
}  // namespace ringrad
