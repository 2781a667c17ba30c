// Views against a model: the model is a plain list of values in row-major order, and a view of it
// is made by looking up, for every index of the result, the index of the source that it shows.

#include "ringrad/core/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Random;

Shape index_of(std::int64_t n, const Shape& shape) {
  Shape index = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    index[axis] = n % shape[axis];
    n /= shape[axis];
  }
  return index;
}

struct Model {
  Shape shape;
  std::vector<std::int64_t> values;

  std::int64_t at(const Shape& index) const {
    std::int64_t place = 0;
    for (int axis = 0; axis < shape.size(); ++axis) place = place * shape[axis] + index[axis];
    return values[static_cast<std::size_t>(place)];
  }
  Model view(const Shape& result, const std::function<Shape(Shape)>& source_of) const {
    Model model{result, {}};
    for (std::int64_t n = 0; n < result.numel(); ++n)
      model.values.push_back(at(source_of(index_of(n, result))));
    return model;
  }
};

Model model_of(const Tensor& x) { return {x.shape(), x.to_vector<std::int64_t>()}; }

// Reads through strides itself, so that to_vector is not trusted.
void expect_shows(const Tensor& x, const Model& model) {
  ASSERT_EQ(x.shape(), model.shape);
  for (std::int64_t n = 0; n < x.numel(); ++n) {
    const Shape index = index_of(n, x.shape());
    std::int64_t offset = 0;
    for (int axis = 0; axis < x.dims(); ++axis) offset += index[axis] * x.strides()[axis];
    ASSERT_EQ(x.data<std::int64_t>()[offset], model.values[static_cast<std::size_t>(n)]) << index;
  }
}

// A tensor of distinct numbers, sometimes with unusual strides.
Tensor numbered(Random& random, const Shape& shape) {
  const Tensor x = view::reshape(arange(shape.numel()), shape);
  return random.chance(0.5) ? x : random.strided(x);
}

TEST(ViewTest, PermuteAndTransposeMoveAxes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Tensor x = numbered(random, random.shape());
    const auto order = randperm(x.dims(), random.generator()).to_vector<std::int64_t>();
    Shape axes{std::span(order)}, shape = x.shape();
    for (int i = 0; i < x.dims(); ++i) shape[i] = x.shape()[static_cast<int>(axes[i])];
    const Model expected = model_of(x).view(shape, [&](const Shape& index) {
      Shape source = index;
      for (int i = 0; i < index.size(); ++i) source[static_cast<int>(axes[i])] = index[i];
      return source;
    });
    for (std::int64_t& axis : axes) axis -= random.chance(0.5) ? x.dims() : 0;
    expect_shows(view::permute(x, axes), expected);

    if (x.dims() < 2) continue;
    const auto a = static_cast<int>(random.integer(0, x.dims()));
    const auto b = static_cast<int>(random.integer(0, x.dims()));
    Shape swapped = x.shape();
    std::swap(swapped[a], swapped[b]);
    expect_shows(view::transpose(x, a - x.dims(), b), model_of(x).view(swapped, [&](Shape index) {
      std::swap(index[a], index[b]);
      return index;
    }));
  }
}

TEST(ViewTest, SliceTakesPositionsAsPythonDoes) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    Shape shape = random.shape(3, 6, 0);
    if (shape.empty()) shape = {6};
    const Tensor x = numbered(random, shape);
    const auto axis = static_cast<int>(random.integer(0, x.dims()));
    const std::int64_t extent = shape[axis];
    const std::int64_t start = random.integer(-8, 9), end = random.integer(-8, 9);
    const std::int64_t step = random.integer(1, 5);

    // Python's rule, position by position.
    std::vector<std::int64_t> positions;
    const std::int64_t first =
        std::clamp<std::int64_t>(start < 0 ? start + extent : start, 0, extent);
    const std::int64_t last = std::clamp<std::int64_t>(end < 0 ? end + extent : end, 0, extent);
    for (std::int64_t i = first; i < last; i += step) positions.push_back(i);

    shape[axis] = static_cast<std::int64_t>(positions.size());
    expect_shows(view::slice(x, axis, start, end, step), model_of(x).view(shape, [&](Shape index) {
      index[axis] = positions[static_cast<std::size_t>(index[axis])];
      return index;
    }));
  }
}

TEST(ViewTest, SliceTakesExtremePositions) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  const Tensor x = arange(5);
  expect_shows(view::slice(x, 0, 1), {{4}, {1, 2, 3, 4}});
  expect_shows(view::slice(x, 0, kMin, kMax, kMax), {{1}, {0}});
  expect_shows(view::slice(x, 0, 2, kMax, kMax), {{1}, {2}});
  expect_shows(view::slice(x, 0, kMax, kMin), {{0}, {}});
}

TEST(ViewTest, SelectDropsTheAxis) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Shape shape = random.shape();
    if (shape.empty()) shape = {3};
    const Tensor x = numbered(random, shape);
    const auto axis = static_cast<int>(random.integer(0, x.dims()));
    const std::int64_t position = random.integer(0, shape[axis]);
    const std::int64_t extent = shape[axis];
    shape.erase(axis);
    const Model expected = model_of(x).view(shape, [&](Shape index) {
      index.insert(axis, position);
      return index;
    });
    expect_shows(view::select(x, axis, position), expected);
    expect_shows(view::select(x, axis - x.dims(), position - extent), expected);
  }
}

TEST(ViewTest, ExpandRepeats) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Tensor x = numbered(random, random.shape(3, 2));
    Shape shape = x.shape();
    for (std::int64_t& extent : shape)
      if (extent == 1) extent = random.integer(0, 4);
    while (shape.size() < 5 && random.chance(0.5)) shape.insert(0, random.integer(1, 4));
    expect_shows(view::expand(x, shape), model_of(x).view(shape, [&](const Shape& index) {
      Shape source = x.shape();
      for (int i = 0; i < x.dims(); ++i)
        source[i] = x.shape()[i] == 1 ? 0 : index[i + shape.size() - x.dims()];
      return source;
    }));
  }
}

TEST(ViewTest, SqueezeAndUnsqueezeKeepTheOrder) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Tensor x = numbered(random, random.shape(4, 2));
    const auto values = model_of(x).values;
    Shape shape = x.shape();
    const auto axis = static_cast<int>(random.integer(0, x.dims() + 1));
    shape.insert(axis, 1);
    expect_shows(view::unsqueeze(x, axis), {shape, values});
    expect_shows(view::unsqueeze(x, axis - x.dims() - 1), {shape, values});

    Shape without_ones;
    for (const std::int64_t extent : x.shape())
      if (extent != 1) without_ones.push_back(extent);
    expect_shows(view::squeeze(x), {without_ones, values});
  }
  EXPECT_EQ(view::squeeze(zeros({1, 2, 1}), {0}).shape(), (Shape{2, 1}));
  EXPECT_EQ(view::squeeze(zeros({1, 2, 1}), {1, -1}).shape(), (Shape{1, 2}));
}

TEST(ViewTest, StackedViewsShowTheRightElements) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Tensor x = numbered(random, random.shape(3, 4));
    const Tensor view = random.view_of(x);
    ASSERT_NO_FATAL_FAILURE(expect_shows(view, model_of(view)));
    ASSERT_EQ(view.storage(), x.storage());
    ASSERT_GE(view.numel(), 1);
  }
}

// If the elements of x can be viewed in another shape at all, then a step along an axis of that
// shape moves by the same distance everywhere. That distance, measured at the origin, is the only
// candidate for the stride.
TEST(ReshapeTest, IsAViewExactlyWhenSomeStridesExist) {
  int possible = 0, impossible = 0;
  constexpr std::int64_t kStrides[] = {0, 1, 2, 3, 4, 6, 8, 12};
  constexpr std::int64_t kNumStrides = std::size(kStrides);
  const Tensor memory = arange(200);
  const auto try_shapes = [&](const Tensor& x, const auto& self, Shape shape,
                              std::int64_t left) -> void {
    if (left == 1) {
      std::vector<std::int64_t> places;
      for_each_offset(x.shape(), x.strides(), [&](std::int64_t at) { places.push_back(at); });
      Strides candidate = Shape::filled(shape.size(), 1);
      std::int64_t step = 1;
      for (int axis = shape.size() - 1; axis >= 0; step *= shape[axis--])
        if (shape[axis] > 1) candidate[axis] = places[static_cast<std::size_t>(step)];
      std::vector<std::int64_t> shown;
      for_each_offset(shape, candidate, [&](std::int64_t at) { shown.push_back(at); });
      const auto strides = view::reshaped_strides(x, shape);
      ASSERT_EQ(strides.has_value(), shown == places) << x.shape() << x.strides() << shape;
      ++(strides ? possible : impossible);
      if (!strides) return;
      for (int axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] > 1) {
          ASSERT_EQ((*strides)[axis], candidate[axis]) << x.shape() << x.strides() << shape;
        }
    }
    if (shape.size() == 4) return;
    for (std::int64_t extent = 1; extent <= left; ++extent)
      if (left % extent == 0) {
        Shape longer = shape;
        longer.push_back(extent);
        self(x, self, longer, left / extent);
      }
  };
  for (std::int64_t code = 0; code < 27; ++code) {
    const Shape shape{1 + code / 9, 1 + code / 3 % 3, 2 + code % 3};
    for (std::int64_t s = 0; s < kNumStrides * kNumStrides * kNumStrides; ++s) {
      const Strides strides{kStrides[s / kNumStrides / kNumStrides],
                            kStrides[s / kNumStrides % kNumStrides], kStrides[s % kNumStrides]};
      const Tensor x = view::as_strided(memory, shape, strides, 0);
      try_shapes(x, try_shapes, {}, shape.numel());
    }
  }
  EXPECT_GT(possible, 10'000);
  EXPECT_GT(impossible, 10'000);
}

TEST(ReshapeTest, InfersOneExtent) {
  const Tensor x = arange(12);
  expect_shows(view::reshape(x, {3, -1}), {{3, 4}, model_of(x).values});
  EXPECT_EQ(view::reshape(zeros({0, 3}), {-1, 5}).shape(), (Shape{0, 5}));
  EXPECT_EQ(view::reshape(scalar_tensor(1), {1, -1, 1}).shape(), (Shape{1, 1, 1}));
}

TEST(ReshapeTest, ThrowsWhereACopyWouldBeNeeded) {
  const Tensor x = view::transpose(zeros({2, 3}), 0, 1);
  expect_throws<ShapeError>([&] { view::reshape(x, {6}); },
                            "reshape: a view of (3, 2) with strides (1, 3) must not need a copy; "
                            "got (6,); make it contiguous first");
}

TEST(ViewTest, SharesMemoryAndVersion) {
  const Tensor x = zeros({2, 3});
  const Tensor y = view::transpose(x, 0, 1);
  y.data<float>()[4] = 7;
  y.mark_changed(Where::current());
  EXPECT_EQ(x.data<float>()[4], 7);
  EXPECT_EQ(x.version(), 1u);
  EXPECT_FALSE(x.is(y));
}

TEST(ViewTest, AliasIsAnotherTensorOfTheSameElements) {
  Random random(1);
  const Tensor x = numbered(random, {2, 3});
  x.impl()->requires_grad = true;
  const Tensor y = view::alias(x);
  EXPECT_FALSE(y.is(x));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.strides(), x.strides());
  expect_shows(y, model_of(x));
}

TEST(ViewTest, ViewsWithoutElementsPointAtTheStart) {
  const Tensor nothing = zeros({0, 3});
  EXPECT_EQ(view::select(nothing, 1, 2).raw_data(), nullptr);
  const Tensor x = zeros({4, 6});
  EXPECT_EQ(view::select(view::slice(x, 0, 4), 1, 5).raw_data(), x.raw_data());
}

TEST(ViewTest, RefusesAbsentAxesAndPositions) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>([&] { view::transpose(x, 0, 2); },
                            "transpose: axis must be in [-2, 2); got 2");
  expect_throws<ShapeError>([&] { view::permute(x, {0}); },
                            "permute: every axis must be named once; got (0,) for shape (2, 3)");
  expect_throws<ShapeError>(
      [&] {
        view::permute(x, {1, -1});
      },
      "permute: every axis must be named once; got (1, -1) for shape (2, 3)");
  expect_throws<ShapeError>([&] { view::slice(x, -3, 0); }, "slice: axis must be in");
  expect_throws<ValueError>([&] { view::slice(x, 0, 0, 1, 0); },
                            "slice: step must be positive; got 0");
  expect_throws<IndexError>([&] { view::select(x, 1, 3); },
                            "select: index must be in [-3, 3); got 3");
  expect_throws<IndexError>([&] { view::select(x, 1, -4); }, "got -4");
  expect_throws<ShapeError>(
      [&] {
        view::expand(x, {3, 3});
      },
      "expand: axes must be equal or 1; got (2, 3) and (3, 3)");
  expect_throws<ShapeError>([&] { view::expand(zeros({1}), {std::int64_t{1} << 62}); },
                            "must fit in 63 bits");
  expect_throws<ShapeError>([&] { view::squeeze(x, {2}); }, "squeeze: axis must be in");
  expect_throws<ShapeError>(
      [&] {
        view::unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0);
      },
      "unsqueeze: at most 8 axes");
}

}  // namespace
}  // namespace ringrad
