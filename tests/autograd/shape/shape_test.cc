// The operators of autograd/shape: values against loops or lists, gradients against differences.

#include <algorithm>
#include <cmath>
#include <functional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/flip.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/autograd/shape/diagonal.h"
#include "ringrad/autograd/shape/pad.h"
#include "ringrad/autograd/shape/repeat.h"
#include "ringrad/autograd/shape/roll.h"
#include "ringrad/autograd/shape/unfold.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

// y, whose element at each position is x's at from(position), or `outside` where from() is negative
// somewhere.
void expect_moved(const Tensor& y, const Tensor& x, const std::function<Shape(const Shape&)>& from,
                  double outside = 0, Where at = Where::current()) {
  const auto in = x.to_vector<double>();
  std::vector<double> want;
  Shape position = Shape::filled(y.dims(), 0);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = y.dims() - 1; axis >= 0; --axis) {
      position[axis] = rest % y.shape()[axis];
      rest /= y.shape()[axis];
    }
    const Shape source = from(position);
    bool inside = true;
    for (int axis = 0; axis < x.dims(); ++axis) {
      inside &= source[axis] >= 0 && source[axis] < x.shape()[axis];
      offset = offset * x.shape()[axis] + source[axis];
    }
    want.push_back(inside ? in[static_cast<std::size_t>(offset)] : outside);
  }
  expect_close(y, want, testing::kDefaultSlack, at);
}

// First and second derivatives agree with differences.
void expect_gradients(const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  Random random(5);
  const Tensor x = random.tensor(shape, DType::float64).set_requires_grad();
  const auto of_list = [&](const std::vector<Tensor>& in) { return f(in[0]); };
  EXPECT_EQ(gradient_check(of_list, {x}), "");
  EXPECT_EQ(gradient_gradient_check(of_list, {x}), "");
}

TEST(FlipTest, ReversesAxesOfAnyTensor) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor({random.integer(0, 5), 3, random.integer(1, 40)},
                                   seed % 3 ? DType::float32 : DType::uint8);
    const Tensor y = flip(random.strided(x), {0, -1});
    expect_moved(y, x, [&](const Shape& p) {
      return Shape{x.size(0) - 1 - p[0], p[1], x.size(2) - 1 - p[2]};
    });
  }
  const Tensor image = to_layout(rand({2, 3, 4, 5}), Layout::channels_last);
  EXPECT_TRUE(flip(image, {1}).is_channels_last());
  expect_same_bits(flip(flip(image, {1, 3}), {3, 1}), image);
  expect_close(flip(tensor(2.), {}), {2});
}

TEST(RollTest, MovesElementsRound) {
  expect_close(roll(tensor({{1., 2., 3.}, {4., 5., 6.}}), 1), {6, 1, 2, 3, 4, 5});
  Random random(3);
  const Tensor x = random.tensor({4, 5, 2});
  for (const std::int64_t shift : {-7, -1, 0, 3, 5}) {
    const Tensor y = roll(random.strided(x), {shift, 1}, {1, 0});
    expect_moved(y, x, [&](const Shape& p) {
      return Shape{(p[0] + 3) % 4, (p[1] - shift + 10) % 5, p[2]};
    });
  }
  EXPECT_EQ(roll(zeros({0, 2}), 1, 0).shape(), (Shape{0, 2}));
}

TEST(PadTest, SurroundsOrCrops) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64}) {
    Random random(4);
    const Tensor x = random.tensor({3, 4, 5}, dtype);
    const Tensor y = pad(random.strided(x), {1, 2, -1, 3}, PadMode::constant, 7);
    ASSERT_EQ(y.shape(), (Shape{3, 6, 8}));
    expect_moved(
        y, x,
        [](const Shape& p) {
          return Shape{p[0], p[1] + 1, p[2] - 1};
        },
        7);
  }
  expect_close(pad(zeros({0, 1}), {0, 0, 1, 1}), tensor({{0.}, {0.}}));
  EXPECT_TRUE(pad(to_layout(rand({1, 2, 3, 4}), Layout::channels_last), {1, 1}).is_channels_last());
}

TEST(PadTest, ReflectsAndReplicates) {
  const Tensor x = tensor({1., 2., 3., 4.});
  EXPECT_FALSE(pad(x, {0, 0}, PadMode::reflect).storage() == x.storage());  // always a copy
  expect_close(pad(x, {2, 3}, PadMode::reflect), {3, 2, 1, 2, 3, 4, 3, 2, 1});
  expect_close(pad(x, {2, 1}, PadMode::replicate), {1, 1, 1, 2, 3, 4, 4});
  expect_close(pad(x, {-1, 1}, PadMode::replicate), {2, 3, 4, 4});
  expect_close(pad(tensor({{1., 2.}, {3., 4.}}), {1, 0, 0, 1}, PadMode::reflect),
               tensor({{2., 1., 2.}, {4., 3., 4.}, {2., 1., 2.}}));
}

TEST(RepeatTest, RepeatsWholeTensorsOrPositions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor({2, random.integer(0, 4), 3});
    const Tensor y = repeat(random.strided(x), {2, 1, 3, 2});
    ASSERT_EQ(y.shape(), (Shape{2, 2, 3 * x.size(1), 6}));
    expect_moved(y, x, [&](const Shape& p) { return Shape{p[1], p[2] % x.size(1), p[3] % 3}; });
    const Tensor z = repeat_interleave(random.strided(x), 3, 1);
    expect_moved(z, x, [&](const Shape& p) { return Shape{p[0], p[1] / 3, p[2]}; });
  }
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  expect_close(tile(x, 2), tensor({{1., 2., 1., 2.}, {3., 4., 3., 4.}}));
  expect_close(repeat_interleave(x, 2), {1, 1, 2, 2, 3, 3, 4, 4});
  expect_close(repeat_interleave(x, tensor({2, 0}), 0), tensor({{1., 2.}, {1., 2.}}));
  EXPECT_EQ(repeat(x, {0, 1}).shape(), (Shape{0, 2}));
  EXPECT_FALSE(repeat(x, {1, 1}).storage() == x.storage());  // always a copy
}

TEST(RepeatTest, EveryElementHasAPlaceOfItsOwn) {
  const Tensor row = tensor({{1., 2.}});
  for (const Tensor& y : {repeat(row, {3, 2}), repeat(row, {3, 1}), tile(row, {2, 1, 2}),
                          repeat_interleave(row, 3, 0), repeat_interleave(transpose(row, 0, 1), 2)})
    EXPECT_TRUE(y.is_contiguous()) << y.shape();
}

TEST(MeshgridTest, GivesTheCoordinatesOfEveryPoint) {
  const Tensor a = tensor({1., 2., 3.}), b = tensor({4., 5.});
  const auto ij = meshgrid({a, b}), xy = meshgrid({a, b}, Indexing::xy);
  expect_close(ij[0], tensor({{1., 1.}, {2., 2.}, {3., 3.}}));
  expect_close(ij[1], tensor({{4., 5.}, {4., 5.}, {4., 5.}}));
  expect_same_bits(xy[0], transpose(ij[0], 0, 1));
  expect_same_bits(xy[1], transpose(ij[1], 0, 1));
}

TEST(DiagonalTest, ReadsAnyDiagonalAsAView) {
  Random random(6);
  const Tensor x = random.tensor({3, 4, 5});
  for (std::int64_t k = -6; k <= 6; ++k) {
    const Tensor y = diagonal(x, k, 2, -3);
    EXPECT_TRUE(y.storage() == x.storage());
    ASSERT_EQ(
        y.shape(),
        (Shape{4, std::max<std::int64_t>(0, std::min(k < 0 ? 5 + k : 5, k > 0 ? 3 - k : 3))}));
    expect_moved(y, x, [&](const Shape& p) {
      return Shape{p[1] + std::max<std::int64_t>(k, 0), p[0], p[1] + std::max<std::int64_t>(-k, 0)};
    });
  }
}

TEST(DiagonalTest, TrianglesHaveZerosBeyondADiagonal) {
  Random random(7);
  for (const DType dtype : {DType::float32, DType::float16, DType::int32, DType::bool_}) {
    const Tensor x = random.tensor({2, 4, 3}, dtype);
    for (std::int64_t k = -5; k <= 5; ++k) {
      const Tensor lower = tril(random.strided(x), k), upper = triu(x, k);
      EXPECT_EQ(lower.dtype(), dtype);
      expect_moved(lower, x, [&](const Shape& p) {
        return p[2] - p[1] <= k ? p : Shape{-1, 0, 0};
      });
      expect_moved(upper, x, [&](const Shape& p) {
        return p[2] - p[1] >= k ? p : Shape{-1, 0, 0};
      });
    }
  }
  expect_close(tril(full({2, 2}, NAN)), tensor({{NAN, 0.}, {NAN, NAN}}));
}

TEST(UnfoldTest, SlidesAWindow) {
  Random random(8);
  const Tensor x = random.tensor({2, 7, 3});
  for (const std::int64_t size : {1, 3, 7})
    for (const std::int64_t step : {1, 2, 9}) {
      const Tensor y = unfold(random.strided(x), 1, size, step);
      ASSERT_EQ(y.shape(), (Shape{2, (7 - size) / step + 1, 3, size}));
      expect_moved(y, x, [&](const Shape& p) { return Shape{p[0], p[1] * step + p[3], p[2]}; });
    }
  EXPECT_EQ(unfold(zeros({5}), 0, 0, 6).shape(), (Shape{1, 0}));
  EXPECT_EQ(unfold(zeros({5}), 0, 0, INT64_MAX).shape(), (Shape{1, 0}));
}

TEST(ShapeTest, GradientsAgreeWithDifferences) {
  expect_gradients({2, 3}, [](const Tensor& x) { return square(flip(x, {1})); });
  expect_gradients({2, 3}, [](const Tensor& x) { return square(roll(x, {1, 2}, {0, 1})); });
  expect_gradients({2, 3}, [](const Tensor& x) { return square(roll(x, 4)); });
  expect_gradients({3, 4}, [](const Tensor& x) { return square(pad(x, {1, -2, 2, 1})); });
  expect_gradients({2, 4}, [](const Tensor& x) {
    return square(pad(x, {3, 1, 1, 1}, PadMode::reflect));
  });
  expect_gradients({4}, [](const Tensor& x) { return square(pad(x, {2, 1}, PadMode::replicate)); });
  expect_gradients({2, 2}, [](const Tensor& x) { return square(repeat(x, {2, 1, 3})); });
  expect_gradients({2, 2}, [](const Tensor& x) { return square(repeat_interleave(x, 3, 1)); });
  expect_gradients({3, 4}, [](const Tensor& x) { return square(diagonal(x, 1)); });
  expect_gradients({3, 4}, [](const Tensor& x) { return square(tril(x, -1)) + triu(x); });
  expect_gradients({2, 6}, [](const Tensor& x) { return square(unfold(x, 1, 3, 2)); });
}

TEST(ShapeTest, SixteenBitGradientsOfWindowsAreRoundedOnce) {
  const Tensor x = zeros({40}, {.dtype = DType::bfloat16}).set_requires_grad();
  sum(unfold(x, 0, 40, 1)).backward();
  expect_close(x.grad(), ones({40}));
  const Tensor wide = zeros({700}, {.dtype = DType::bfloat16}).set_requires_grad();
  sum(unfold(wide, 0, 350, 1)).backward();
  EXPECT_EQ(wide.grad().to_vector<double>()[349], 350);
}

TEST(ShapeTest, TakesTheLastNumbersOfInt64) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Tensor x = tensor({1., 2., 3.}).set_requires_grad();  // 2^63 is 2 more than a multiple of 3
  const Tensor y = roll(x, kLeast, 0);
  expect_close(y, {3, 1, 2});
  (y * tensor({1., 2., 3.})).backward(ones({3}));
  expect_close(x.grad(), {2, 3, 1});
  expect_close(unfold(zeros({4, 3}), 0, 2, -(kLeast + 1)), zeros({1, 3, 2}));
}

TEST(ShapeTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = zeros({2, 3});
  expect_throws<ValueError>([&] { pad(x, {1}); }, "pad: amounts must be pairs");
  expect_throws<ShapeError>(
      [&] {
        pad(x, {1, 1, 1, 1, 1, 1});
      },
      "at most one pair of amounts per axis; got 3 pairs for shape (2, 3)");
  expect_throws<ShapeError>([&] { pad(x, {-2, -2}); }, "no more than an axis can be removed");
  expect_throws<ShapeError>(
      [&] {
        pad(x, {3, 0}, PadMode::reflect);
      },
      "reflect must add fewer positions than the axis has; got 3 and 0");
  expect_throws<ShapeError>(
      [&] {
        pad(zeros(0), {1, 0}, PadMode::replicate);
      },
      "must have an element to replicate");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const PadMode mode : {PadMode::constant, PadMode::replicate})
    expect_throws<ShapeError>([&] { pad(x, {kMost, kMost}, mode); }, "must fit in int64; got 9");
  expect_throws<ShapeError>([&] { flip(x, {0, 0}); }, "flip");
  expect_throws<ShapeError>([&] { roll(x, {1, 2}, {0}); }, "a shift for each axis; got (1, 2)");
  expect_throws<ShapeError>([&] { repeat(x, 2); }, "a count for each axis; got (2,)");
  expect_throws<ValueError>([&] { repeat(x, {1, -1}); }, "must not be negative; got -1");
  expect_throws<ShapeError>([&] { repeat_interleave(x, tensor({1}), 0); },
                            "a count for each of 2 positions; got counts (1,)");
  expect_throws<ShapeError>(
      [&] {
        repeat_interleave(x, tensor({kMost, kMost}), 0);
      },
      "the sum of the counts must fit in int64");
  expect_throws<ShapeError>(
      [&] {
        repeat_interleave(x, tensor({kMost, std::int64_t{0}}), 0);
      },
      "empty: ");
  expect_throws<ShapeError>(
      [&] {
        repeat_interleave(zeros({0, 4}), kMost / 2, 1);
      },
      "repeat_interleave: the extents of the result must fit in int64");
  expect_throws<ShapeError>([&] { repeat(zeros({0, 4}), {1, kMost / 2}); }, "repeat: the extents");
  expect_throws<ShapeError>([&] { diagonal(x, 0, 1, -1); }, "the axes must differ");
  expect_throws<ShapeError>([&] { tril(zeros(3)); }, "tril: a matrix must have two axes");
  expect_throws<ShapeError>([&] { unfold(x, 1, 4, 1); }, "a window must fit into the axis");
  expect_throws<ValueError>([&] { unfold(x, 1, 2, 0); }, "step must be positive; got 0");
  expect_throws<ValueError>([&] { meshgrid(std::vector<Tensor>()); }, "must be a list");
}

}  // namespace
}  // namespace ringrad
