#include "ringrad/kernels/reduce/argmax.h"

#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                             DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

void expect_agreement(const Tensor& x, int axis) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.dims()), false);
  reduced[static_cast<std::size_t>(axis)] = true;
  std::vector<double> largest, smallest;
  for (const auto& group : reference::reduction_groups(
           x.to_vector<double>(), {x.shape().begin(), x.shape().end()}, reduced)) {
    largest.push_back(static_cast<double>(reference::argmax(group)));
    smallest.push_back(static_cast<double>(reference::argmin(group)));
  }
  expect_close(kernels::argmax(x, axis), largest);
  expect_close(kernels::argmin(x, axis, true), smallest);
}

TEST(ArgmaxTest, TheFirstOfEqualsWins) {
  expect_close(kernels::argmax(tensor({{1., 5., 5.}, {7., 7., 7.}}), 1), {1, 0});
  expect_close(kernels::argmin(tensor({{1., 5., 0.}, {1., 4., 0.}}), 0), {0, 1, 0});
}

TEST(ArgmaxTest, TheFirstNanWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t position : {0, 3, 70, 199}) {
    const Tensor x = ones({200, 2});
    const Tensor column = view::select(x, 1, 0);
    kernels::fill_(view::select(column, 0, position), nan);
    kernels::fill_(view::select(column, 0, 199), nan);
    expect_close(kernels::argmax(x, 0), {static_cast<double>(position), 0});
    expect_close(kernels::argmin(view::transpose(x, 0, 1), 1), {static_cast<double>(position), 0});
  }
}

TEST(ArgmaxTest, CountsInRowMajorOrderWithoutAnAxis) {
  const Tensor x = view::transpose(tensor({{1., 2., 9.}, {3., 4., 5.}}), 0, 1);
  EXPECT_EQ(kernels::argmax(x).item<std::int64_t>(), 4);
  EXPECT_EQ(kernels::argmax(x).shape(), Shape{});
  EXPECT_EQ(kernels::argmax(x, {}, true).shape(), (Shape{1, 1}));
}

TEST(ArgmaxTest, ShapesLoseTheAxisUnlessKept) {
  EXPECT_EQ(kernels::argmax(ones({2, 3, 4}), 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(kernels::argmax(ones({2, 3, 4}), -2, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(kernels::argmax(ones({2}), 0).dtype(), DType::int64);
  EXPECT_EQ(kernels::argmax(empty({0, 3}), 1).shape(), Shape{0});
}

TEST(ArgmaxTest, AgreesWithTheReference) {
  const testing::Team team(2);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Tensor x =
        random.view_of(random.tensor(random.shape(4, 6), kDTypes[random.integer(0, kNumDTypes)]));
    for (int axis = 0; axis < x.dims(); ++axis) expect_agreement(x, axis);
  }
  Random random(101);
  for (const Shape& shape : {Shape{3, 1000}, Shape{1000, 3}, Shape{40, 600}, Shape{2, 65, 513},
                             Shape{2, 20'000}, Shape{20'000, 2}})
    for (int axis = 0; axis < shape.size(); ++axis) {
      expect_agreement(random.tensor(shape), axis);
      expect_agreement(random.tensor(shape, DType::uint8), axis);
    }
}

TEST(ArgmaxTest, ThrowsForAbsentAxesAndEmptyOnes) {
  expect_throws<ShapeError>(
      [] {
        kernels::argmax(ones({2, 3}), 2);
      },
      "argmax: axis must be in [-2, 2); got 2");
  expect_throws<ShapeError>(
      [] {
        kernels::argmin(empty({0, 3}), 0);
      },
      "argmin: there must be an element to choose; got shape (0, 3)");
}

}  // namespace
}  // namespace ringrad
