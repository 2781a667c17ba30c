#include "ringrad/core/base/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Random;

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

// The memory offsets of all elements in row-major order, computed index by index.
std::vector<std::int64_t> places(const Shape& shape, const Strides& strides) {
  std::vector<std::int64_t> result;
  for (std::int64_t n = 0; n < shape.numel(); ++n) {
    std::int64_t rest = n, place = 0;
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      place += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    result.push_back(place);
  }
  return result;
}

// Extents up to 3 and strides up to 12, often the strides of a permutation of the axes without
// gaps.
std::pair<Shape, Strides> random_layout(Random& random) {
  const Shape shape = random.shape(4, 3, random.chance(0.1) ? 0 : 1);
  Strides strides = Shape::filled(shape.size(), 0);
  std::int64_t step = 1;
  const Tensor order = randperm(shape.size(), random.generator());
  for (const std::int64_t axis : order.to_vector<std::int64_t>()) {
    strides[static_cast<int>(axis)] = random.chance(0.1) ? random.integer(0, 13) : step;
    step *= std::max<std::int64_t>(shape[static_cast<int>(axis)], 1);
  }
  return {shape, strides};
}

TEST(ShapeTest, InsertAndEraseChangeOneAxis) {
  Shape shape{2, 3};
  shape.insert(1, 7);
  EXPECT_EQ(shape, (Shape{2, 7, 3}));
  shape.insert(3, 9);
  EXPECT_EQ(shape, (Shape{2, 7, 3, 9}));
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{7, 3, 9}));
  shape.push_back(1);
  EXPECT_EQ(shape.back(), 1);
  EXPECT_EQ(shape.numel(), 189);
}

TEST(ShapeTest, EqualityCountsAxes) {
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 0}));
  EXPECT_NE((Shape{}), (Shape{1}));
  Shape erased{2, 3, 4};
  erased.erase(2);
  EXPECT_EQ(erased, (Shape{2, 3}));  // the erased extents do not count
}

TEST(ShapeTest, AScalarHasOneElement) { EXPECT_EQ(Shape{}.numel(), 1); }

TEST(ShapeTest, PrintsAsATuple) {
  EXPECT_EQ(concat(Shape{}), "()");
  EXPECT_EQ(concat(Shape{5}), "(5,)");
  EXPECT_EQ(concat(Shape{2, -1, 3}), "(2, -1, 3)");
}

TEST(ShapeTest, RefusesMoreThanEightAxes) {
  EXPECT_NO_THROW((Shape{1, 2, 3, 4, 5, 6, 7, 8}));
  expect_throws<ShapeError>([] { Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; },
                            "shape: at most 8 axes are supported; got 9");
}

TEST(ShapeTest, RefusesExtentsWhoseBytesOverflow) {
  const Where here = Where::current();
  EXPECT_NO_THROW(check_extents("empty", {kHuge, 1 << 20}, 4, here));
  expect_throws<ShapeError>(
      [&] {
        check_extents("empty", {kHuge, 1 << 21}, 4, here);
      },
      "empty: the number of bytes must fit in 63 bits; got "
      "(1099511627776, 2097152) of 4-byte elements");
  // No elements, yet the strides would overflow.
  expect_throws<ShapeError>(
      [&] {
        check_extents("empty", {0, kHuge, kHuge}, 4, here);
      },
      "must fit in 63 bits");
  expect_throws<ShapeError>(
      [&] {
        check_extents("empty", {kHuge, kHuge, 0}, 1, here);
      },
      "must fit in 63 bits");
  expect_throws<ShapeError>(
      [&] {
        check_extents("empty", {3, -1}, 4, here);
      },
      "empty: extents must not be negative; got (3, -1)");
}

TEST(LayoutTest, FreshStridesHaveTheirLayout) {
  EXPECT_EQ(strides_for({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(strides_for({2, 3, 4, 5}, Layout::channels_last), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(strides_for({}), Strides{});
}

TEST(LayoutTest, PredicatesAgreeWithTheirDefinitions) {
  int contiguous = 0, channels_last = 0, dense = 0, repeating = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    const auto [shape, strides] = random_layout(random);
    auto at = places(shape, strides);
    std::vector<std::int64_t> counting(at.size());
    std::iota(counting.begin(), counting.end(), 0);

    ASSERT_EQ(is_contiguous(shape, strides), at == counting) << shape << strides;
    contiguous += at == counting;
    if (shape.size() == 4) {
      const bool expected = at == places(shape, strides_for(shape, Layout::channels_last));
      ASSERT_EQ(is_channels_last(shape, strides), expected) << shape << strides;
      channels_last += expected;
    } else {
      ASSERT_FALSE(is_channels_last(shape, strides));
    }
    std::sort(at.begin(), at.end());
    ASSERT_EQ(is_dense(shape, strides), at == counting) << shape << strides;
    dense += at == counting;
    // Some layouts whose elements interlock count as repeating as well.
    const bool repeats = std::adjacent_find(at.begin(), at.end()) != at.end();
    if (repeats || at == counting) {
      ASSERT_EQ(repeats_elements(shape, strides), repeats) << shape << strides;
    }
    repeating += repeats;
  }
  // The sample contains both answers to each question.
  for (const int yes : {contiguous, dense}) EXPECT_TRUE(500 < yes && yes < 3900) << yes;
  EXPECT_GT(channels_last, 20);
  EXPECT_TRUE(20 < repeating && repeating < 3980) << repeating;
}

TEST(LayoutTest, WithoutElementsEveryOrderIsContiguous) {
  EXPECT_TRUE(is_contiguous({0, 3}, {6, 2}));
  EXPECT_TRUE(is_contiguous({3, 0}, {0, 5}));
  EXPECT_TRUE(is_channels_last({0, 2, 2, 2}, {8, 4, 2, 1}));
  EXPECT_TRUE(is_dense({0, 3}, {6, 2}));
  EXPECT_FALSE(repeats_elements({0, 3}, {0, 0}));
}

TEST(LayoutTest, ForEachOffsetVisitsRowMajor) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto [shape, strides] = random_layout(random);
    std::vector<std::int64_t> visited;
    for_each_offset(shape, strides, [&](std::int64_t offset) { visited.push_back(offset); });
    ASSERT_EQ(visited, places(shape, strides)) << shape << strides;
  }
}

TEST(BroadcastTest, AlignsAtTheLastAxis) {
  const Where here = Where::current();
  EXPECT_EQ(broadcast_shapes("add", {2, 3}, {2, 3}, here), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {2, 3}, {3}, here), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {3}, {4, 2, 1}, here), (Shape{4, 2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {2, 1, 4}, {3, 1}, here), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {5}, here), (Shape{5}));
  EXPECT_EQ(broadcast_shapes("add", {0}, {1}, here), (Shape{0}));
  EXPECT_EQ(broadcast_shapes("add", {1, 0}, {7, 1}, here), (Shape{7, 0}));
}

TEST(BroadcastTest, RefusesExtentsThatDiffer) {
  const Where here = Where::current();
  expect_throws<ShapeError>(
      [&] {
        broadcast_shapes("add", {2, 3}, {4}, here);
      },
      "add: shapes must broadcast; got (2, 3) and (4,)");
  expect_throws<ShapeError>([&] { broadcast_shapes("add", {0}, {2}, here); },
                            "add: shapes must broadcast; got (0,) and (2,)");
}

TEST(BroadcastTest, BroadcastsToExactlyWhatLeavesTheTargetUnchanged) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const Shape from = random.shape(3, 2, 0), to = random.shape(3, 2, 0);
    bool expected = false;
    try {
      expected = broadcast_shapes("test", from, to, Where::current()) == to;
    } catch (const ShapeError&) {
    }
    ASSERT_EQ(broadcasts_to(from, to), expected) << from << to;
  }
}

TEST(AxisTest, NegativeAxesCountFromTheEnd) {
  const Where here = Where::current();
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(normalize_axis("sum", axis, 3, here), axis);
    EXPECT_EQ(normalize_axis("sum", axis - 3, 3, here), axis);
  }
  expect_throws<ShapeError>([&] { normalize_axis("sum", 3, 3, here); },
                            "sum: axis must be in [-3, 3); got 3");
  expect_throws<ShapeError>([&] { normalize_axis("sum", -4, 3, here); }, "got -4");
  expect_throws<ShapeError>([&] { normalize_axis("sum", 0, 0, here); }, "got 0");
}

TEST(AxisTest, MaskHasABitPerAxis) {
  const Where here = Where::current();
  EXPECT_EQ(axes_mask("sum", {0, -1}, 4, here), 0b1001u);
  EXPECT_EQ(axes_mask("sum", {}, 3, here), 0b111u);
  EXPECT_EQ(axes_mask("sum", {}, 0, here), 0u);
  EXPECT_EQ(axes_mask("sum", {}, kMaxDims, here), 0xffu);
  expect_throws<ShapeError>(
      [&] {
        axes_mask("sum", {1, -1}, 2, here);
      },
      "sum: axes must be distinct; got (1, -1)");
}

TEST(InferShapeTest, FillsInTheMissingExtent) {
  const Where here = Where::current();
  EXPECT_EQ(infer_shape("reshape", {2, -1}, 6, here), (Shape{2, 3}));
  EXPECT_EQ(infer_shape("reshape", {-1}, 6, here), (Shape{6}));
  EXPECT_EQ(infer_shape("reshape", {-1}, 0, here), (Shape{0}));
  EXPECT_EQ(infer_shape("reshape", {4, -1}, 0, here), (Shape{4, 0}));
  EXPECT_EQ(infer_shape("reshape", {2, 3}, 6, here), (Shape{2, 3}));
  EXPECT_EQ(infer_shape("reshape", {}, 1, here), Shape{});
  EXPECT_EQ(infer_shape("reshape", {3, 0}, 0, here), (Shape{3, 0}));
}

TEST(InferShapeTest, RefusesShapesOfAnotherSize) {
  const Where here = Where::current();
  const std::pair<Shape, std::int64_t> kWrong[] = {{{2, 4}, 6}, {{4, -1}, 6}, {{}, 6},
                                                   {{0}, 6},    {{0, -1}, 6}, {{-1, 7}, 6}};
  for (const auto& [shape, numel] : kWrong)
    expect_throws<ShapeError>([&] { infer_shape("reshape", shape, numel, here); },
                              concat("reshape: the new shape must hold 6 elements; got ", shape));
}

TEST(InferShapeTest, RefusesAmbiguousShapes) {
  const Where here = Where::current();
  expect_throws<ShapeError>([&] { infer_shape("reshape", {0, -1}, 0, here); }, "got (0, -1)");
  expect_throws<ShapeError>(
      [&] {
        infer_shape("reshape", {-1, -1}, 4, here);
      },
      "reshape: at most one extent may be -1; got (-1, -1)");
  expect_throws<ShapeError>(
      [&] {
        infer_shape("reshape", {-2, 3}, 6, here);
      },
      "reshape: extents must be counts, or -1 for one; got (-2, 3)");
  expect_throws<ShapeError>(
      [&] {
        infer_shape("reshape", {kHuge, kHuge}, 6, here);
      },
      "reshape: extents must be counts");
}

}  // namespace
}  // namespace ringrad
