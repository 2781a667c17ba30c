#include "ringrad/autograd/movement.h"

#include <functional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

Tensor numbers(const Shape& shape) {
  return reshape(to(arange(shape.numel()), DType::float32), shape);
}

// An operator of one tensor, by name, and a shape it takes.
struct Movement {
  const char* name;
  Shape shape;
  std::function<Tensor(const Tensor&)> apply;
};

const Movement kMovements[] = {
    {"reshape",
     {2, 6},
     [](const Tensor& x) {
       return reshape(x, {3, -1});
     }},
    {"reshape of a strided tensor",
     {2, 6},
     [](const Tensor& x) {
       return reshape(transpose(x, 0, 1), {4, 3});
     }},
    {"flatten", {2, 3, 2}, [](const Tensor& x) { return flatten(x, 1); }},
    {"permute",
     {2, 3, 4},
     [](const Tensor& x) {
       return permute(x, {2, 0, -2});
     }},
    {"transpose", {2, 3, 4}, [](const Tensor& x) { return transpose(x, 0, -1); }},
    {"slice", {5, 4}, [](const Tensor& x) { return slice(x, 0, 1, -1, 2); }},
    {"select", {3, 4}, [](const Tensor& x) { return select(x, -1, -2); }},
    {"squeeze", {1, 3, 1}, [](const Tensor& x) { return squeeze(x); }},
    {"unsqueeze", {3, 2}, [](const Tensor& x) { return unsqueeze(x, -2); }},
    {"clone", {3, 2}, [](const Tensor& x) { return clone(x); }},
    {"contiguous", {3, 2}, [](const Tensor& x) { return contiguous(transpose(x, 0, 1)); }},
    {"to_layout",
     {2, 3, 2, 2},
     [](const Tensor& x) { return to_layout(x, Layout::channels_last); }},
    {"to a device",
     {3, 2},
     [](const Tensor& x) {
       return to(x, Device{DeviceType::cpu, 1});
     }},
    {"first piece of split", {5, 2}, [](const Tensor& x) { return split(x, 2)[0]; }},
    {"pieces of split",
     {2, 5},
     [](const Tensor& x) {
       const auto pieces = split(x, 2, 1);
       return pieces[0] * pieces[1] + pieces[2];
     }},
    {"concatenate with itself",
     {2, 3},
     [](const Tensor& x) {
       return concatenate({x, x * x}, 1);
     }},
    {"stack",
     {2, 3},
     [](const Tensor& x) {
       return stack({x, x * x, x}, -1);
     }},
};

// -- Properties ---------------------------------------------------------------------------------

TEST(MovementTest, ViewsShareMemory) {
  const Tensor x = numbers({2, 3, 4});
  for (const Tensor& y :
       {reshape(x, {4, 6}), flatten(x), permute(x, {1, 2, 0}), transpose(x, 0, 1), slice(x, 0, 0),
        select(x, 0, 0), squeeze(x), unsqueeze(x, 1), split(x, 1)[0]}) {
    EXPECT_EQ(y.raw_data(), x.raw_data());
    EXPECT_EQ(y.storage(), x.storage());
  }
}

TEST(MovementTest, BracketsTakeWhatNumPyTakes) {
  const Tensor x = reshape(arange(2 * 3 * 4 * 5), {2, 3, 4, 5}), copy = clone(x);
  const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<double>(((a * 3 + b) * 4 + c) * 5 + d);
  };
  const Tensor part = x[{-1, Slice(1), kNewAxis, Slice(0, 4, 2), Slice(-3, -1)}];
  ASSERT_EQ(part.shape(), Shape({2, 1, 2, 2}));
  for (int b = 0; b < 2; ++b)
    for (int c = 0; c < 2; ++c)
      for (int d = 0; d < 2; ++d)
        EXPECT_EQ((part[{b, 0, c, d}].item<double>()), at(1, b + 1, 2 * c, d + 2));

  EXPECT_EQ((x[{kEllipsis, 3}].shape()), Shape({2, 3, 4}));
  EXPECT_EQ((x[{kEllipsis, 3}][{1, 2, 1}].item<double>()), at(1, 2, 1, 3));
  EXPECT_EQ((x[{1, kEllipsis, Slice(), 2}].shape()), Shape({3, 4}));
  EXPECT_EQ((x[{1, 2, 3, 4, kEllipsis}].item<double>()), at(1, 2, 3, 4));
  EXPECT_EQ((x[{1, kNewAxis, kEllipsis, kNewAxis}].shape()), Shape({1, 3, 4, 5, 1}));
  EXPECT_EQ((x[{Slice(5)}].shape()), Shape({0, 3, 4, 5}));

  x[{0, Slice(), 1, Slice(1, 3)}] += 100;  // views: what is written there is written in x
  EXPECT_EQ(sum(x - copy).item(), 100 * 3 * 2);
  EXPECT_EQ((x[{0, 2, 1, 2}].item<double>()), at(0, 2, 1, 2) + 100);
}

TEST(MovementTest, GradientsFlowThroughBrackets) {
  const Tensor x = ones({3, 4, 2}).set_requires_grad();
  sum(x[{Slice(0, 3, 2), 1, kNewAxis}] * 3.0).backward();
  const Tensor expected = zeros({3, 4, 2});
  expected[{0, 1}] += 3;
  expected[{2, 1}] += 3;
  expect_close(x.grad(), expected);
}

TEST(MovementTest, BracketsRefuseWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  expect_throws<ShapeError>(
      [&] {
        x[{0, 0, 0}];
      },
      "at most one index per axis and one kEllipsis; got 3 and 0 for shape "
      "(2, 3)");
  expect_throws<ShapeError>([&] { x[{kEllipsis, kEllipsis}]; }, "got 0 and 2");
  expect_throws<IndexError>([&] { x[{0, 3}]; }, "select");
  expect_throws<ValueError>([&] { slice(x, 0, 0, 2, -1); }, "slice: step must be positive; got -1");
}

TEST(MovementTest, BracketsAndLoopsVisitTheFirstAxis) {
  const Tensor x = numbers({3, 2});
  x.set_requires_grad();
  expect_close(x[1], {2, 3});
  expect_close(x[-1][0], {4});
  EXPECT_EQ(x[1].storage(), x.storage());
  Tensor total = zeros(2);
  double weight = 1;
  for (const Tensor row : x) total = total + (weight *= 10) * row;
  expect_close(total, {10 * 0 + 100 * 2 + 1000 * 4, 10 * 1 + 100 * 3 + 1000 * 5});
  (sum(total) + x[0][1]).backward();
  expect_close(x.grad(), {10, 11, 100, 100, 1000, 1000});
  for (const Tensor row : ones({0, 2})) FAIL() << row;
  expect_throws<IndexError>([&] { x[3]; }, "select: index must be in [-3, 3); got 3");
  expect_throws<ShapeError>([&] { x[0][0][0]; }, "select: ");
  expect_throws<ShapeError>(
      [] {
        for (const Tensor row : ones({})) FAIL() << row;
      },
      "begin: a tensor must have an axis to iterate over; got shape ()");
}

TEST(MovementTest, ReshapeCopiesOnlyWhereStridesCannotExpressTheResult) {
  const Tensor x = transpose(numbers({4, 6}), 0, 1);
  EXPECT_EQ(reshape(x, {2, 3, 4}).storage(), x.storage());
  const Tensor y = reshape(x, {24});
  EXPECT_NE(y.storage(), x.storage());
  expect_close(slice(y, 0, 0, 6), {0, 6, 12, 18, 1, 7});
  EXPECT_TRUE(reshape(x, {6, 4}).is(x));
}

TEST(MovementTest, ElementsGoWhereNumPyPutsThem) {
  const Tensor x = numbers({2, 3});
  expect_close(transpose(x, 0, 1), {0, 3, 1, 4, 2, 5});
  expect_close(permute(numbers({2, 1, 3}), {2, 1, 0}), {0, 3, 1, 4, 2, 5});
  expect_close(slice(x, 1, 0, 3, 2), {0, 2, 3, 5});
  expect_close(slice(x, -1, -2), {1, 2, 4, 5});
  expect_close(select(x, 1, 2), {2, 5});
  expect_close(concatenate({x, x}, 1), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect_close(stack({select(x, 0, 0), select(x, 0, 1)}, 1), {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(flatten(numbers({2, 3, 4, 5}), 1, 2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(scalar_tensor(1)).shape(), Shape{1});
}

TEST(MovementTest, PiecesPutTogetherAreTheWhole) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const Tensor x = random.strided(random.tensor({5, random.integer(1, 9), 3}));
    const auto pieces = random.chance(0.5) ? split(x, random.integer(1, 10), 1)
                                           : chunk(x, random.integer(1, 10), 1);
    expect_same_bits(concatenate(pieces, 1), x);
  }
}

TEST(MovementTest, SplitAndChunkGiveTheRequestedSizes) {
  const auto sizes = [](const std::vector<Tensor>& pieces) {
    std::vector<std::int64_t> result;
    for (const Tensor& piece : pieces) result.push_back(piece.shape()[0]);
    return result;
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(split(ones({7}), 3)), (Sizes{3, 3, 1}));
  EXPECT_EQ(sizes(split(ones({0}), 3)), Sizes{0});
  EXPECT_EQ(sizes(chunk(ones({7}), 4)), (Sizes{2, 2, 2, 1}));
  EXPECT_EQ(sizes(chunk(ones({6}), 4)), (Sizes{2, 2, 2}));
  EXPECT_EQ(sizes(split_sizes(ones({7}), Sizes{0, 5, 2})), (Sizes{0, 5, 2}));
}

TEST(MovementTest, ConversionsChangeDTypeDeviceAndLayout) {
  const Tensor x = ones({2, 3, 4, 5}, {.layout = Layout::channels_last});
  EXPECT_EQ(to(x, DType::bfloat16).dtype(), DType::bfloat16);
  EXPECT_TRUE(to(x, DType::float32).is(x));
  const Tensor y = to(x, Device{DeviceType::cpu, 2});
  EXPECT_EQ(y.device(), (Device{DeviceType::cpu, 2}));
  EXPECT_NE(y.storage(), x.storage());
  EXPECT_TRUE(y.is_channels_last());
  EXPECT_TRUE(to_layout(x, Layout::contiguous).is_contiguous());
}

TEST(MovementTest, GradientsComeBackInTheInputsDType) {
  const Tensor x = ones({3});
  x.set_requires_grad();
  sum(to(x, DType::bfloat16) * 2).backward();
  EXPECT_EQ(x.grad().dtype(), DType::float32);
  expect_close(x.grad(), {2, 2, 2});
}

TEST(MovementTest, NoGradientPassesThroughIntegers) {
  const Tensor x = ones({3});
  x.set_requires_grad();
  EXPECT_FALSE(to(x, DType::int32).requires_grad());
}

TEST(MovementTest, OnlyUsedPiecesOfASplitSendGradients) {
  const Tensor x = ones({5});
  x.set_requires_grad();
  sum(split(x, 2)[1]).backward();
  expect_close(x.grad(), {0, 0, 1, 1, 0});
}

TEST(MovementTest, TheGradientOfASliceIsChannelsLastLikeItsTensor) {
  const Tensor x = ones({2, 3, 4, 5}, {.layout = Layout::channels_last});
  x.set_requires_grad();
  sum(slice(x, 2, 1, 3)).backward();
  EXPECT_TRUE(x.grad().is_channels_last());
}

// -- Gradients ----------------------------------------------------------------------------------

TEST(MovementTest, GradientsAgreeWithDifferences) {
  Random random(1);
  for (const auto& [name, shape, apply] : kMovements) {
    const Tensor x = random.tensor(shape, DType::float64);
    x.set_requires_grad();
    const auto f = [&apply = apply](const std::vector<Tensor>& in) { return apply(in[0]); };
    EXPECT_EQ(gradient_check(f, {x}), "") << name;
    const auto curved = [&](const std::vector<Tensor>& in) { return apply(in[0] * in[0]); };
    EXPECT_EQ(gradient_gradient_check(curved, {x}), "") << name;
  }
}

TEST(MovementTest, ConcatenateSendsEachInputItsPart) {
  const Tensor a = ones({2, 1}), b = ones({2, 2}), c = ones({2, 1});
  a.set_requires_grad();
  c.set_requires_grad();
  sum(concatenate({a, b, c}, 1) * numbers({2, 4})).backward();
  expect_close(a.grad(), {0, 4});
  expect_close(c.grad(), {3, 7});
}

// -- Errors -------------------------------------------------------------------------------------

TEST(MovementTest, ThrowsWhenAShapeCannotHoldTheElements) {
  const Tensor x = ones({2, 3});
  expect_throws<ShapeError>(
      [&] {
        reshape(x, {4, 2});
      },
      "reshape: the new shape must hold 6 elements; got (4, 2)");
  expect_throws<ShapeError>([&] { reshape(x, {-1, -1}); }, "at most one extent may be -1");
  expect_throws<ShapeError>([&] { flatten(x, 1, 0); },
                            "flatten: the first axis must not follow the last; got 1 and 0");
}

TEST(MovementTest, ThrowsForAbsentAxesAndPositions) {
  const Tensor x = ones({2, 3});
  expect_throws<ShapeError>([&] { transpose(x, 0, 2); }, "transpose: axis must be in [-2, 2)");
  expect_throws<ShapeError>([&] { permute(x, {0, 0}); }, "permute: every axis must be named once");
  expect_throws<ShapeError>([&] { slice(x, 2, 0); }, "slice: axis must be in");
  expect_throws<ValueError>([&] { slice(x, 0, 0, 2, 0); }, "slice: step must be positive; got 0");
  expect_throws<IndexError>([&] { select(x, 1, 3); }, "select: index must be in [-3, 3); got 3");
  expect_throws<ShapeError>([&] { unsqueeze(x, 4); }, "unsqueeze: axis must be in");
}

TEST(MovementTest, ThrowsForImpossiblePieces) {
  const Tensor x = ones({4});
  expect_throws<ValueError>([&] { split(x, 0); }, "split: the size must be positive; got 0");
  expect_throws<ValueError>([&] { chunk(x, -1); }, "chunk: the count must be positive; got -1");
  const std::int64_t sizes[] = {3, 2};
  expect_throws<ShapeError>([&] { split_sizes(x, sizes); },
                            "sizes must be counts that add up to the axis; got a piece of 2 at 3");
  expect_throws<ShapeError>([&] { split_sizes(x, std::span(sizes, 1)); },
                            "split: sizes must add up to the axis; got 3 and axis 0 of (4,)");
}

TEST(MovementTest, ThrowsWhenTensorsDoNotFitTogether) {
  expect_throws<ShapeError>(
      [] {
        concatenate({ones({2, 3}), ones({2, 4})});
      },
      "concatenate: shapes must agree but for axis 0");
  expect_throws<ShapeError>(
      [] {
        stack({ones({2}), ones({3})});
      },
      "stack: shapes must be equal; got (2,) and (3,)");
  expect_throws<ValueError>([] { stack(std::vector<Tensor>{}); }, "stack: there must be a tensor");
}

}  // namespace
}  // namespace ringrad
