// Tensors among the indices of x[{...}], read and assigned, and what chooses elements by conditions
// or by index: against loops over lists of positions.

#include "ringrad/autograd/index/brackets.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/index/mask.h"
#include "ringrad/autograd/index/scatter.h"
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

// First and second derivatives at x agree with differences.
void expect_gradients(const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  Random random(5);
  const Tensor x = random.tensor(shape, DType::float64).set_requires_grad();
  const auto of_list = [&](const std::vector<Tensor>& in) { return f(in[0]); };
  EXPECT_EQ(gradient_check(of_list, {x}), "");
  EXPECT_EQ(gradient_gradient_check(of_list, {x}), "");
}

Tensor counted(const Shape& shape, DType dtype = DType::float32) {
  return to(reshape(arange(shape.numel()), shape), dtype);
}

TEST(BracketsTest, ReadPositionsOfOneAxis) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::bool_}) {
    const Tensor x = random.tensor({4, 5, 3}, dtype), from = random.strided(x);
    const Tensor at = tensor({{1, -4}, {0, 3}});
    const Tensor first = from[at], middle = from[{Slice(), to(at, DType::int32)}];
    ASSERT_EQ(first.shape(), (Shape{2, 2, 5, 3}));
    ASSERT_EQ(middle.shape(), (Shape{4, 2, 2, 3}));
    const std::int64_t positions[2][2] = {{1, -4}, {0, 3}};
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const std::int64_t row = positions[i][j] < 0 ? positions[i][j] + 4 : positions[i][j];
        expect_same_bits(first[{i, j}], x[row]);
        const std::int64_t column = positions[i][j] < 0 ? positions[i][j] + 5 : positions[i][j];
        expect_same_bits(middle[{Slice(), i, j}], x[{Slice(), column}]);
      }
  }
}

TEST(BracketsTest, SeveralTensorsBroadcastAndMeetElementByElement) {
  const Tensor x = counted({3, 4, 5});
  const Tensor i = tensor({{0}, {2}}), j = tensor({3, 1, 0});
  const Tensor y = x[{i, j}];  // (2, 3, 5)
  ASSERT_EQ(y.shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(y.to_vector<int>()[static_cast<std::size_t>((1 * 3 + 1) * 5 + 2)], (2 * 4 + 1) * 5 + 2);
  // Not neighbours: their shape comes first.
  const Tensor z = x[{i, Slice(), j}];
  ASSERT_EQ(z.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(z.to_vector<int>()[static_cast<std::size_t>((1 * 3 + 0) * 4 + 2)], (2 * 4 + 2) * 5 + 3);
  // Neighbours after other indices: it stays in their place.
  ASSERT_EQ((x[{kEllipsis, Slice(0, 2), j}].shape()), (Shape{3, 2, 3}));
  ASSERT_EQ((x[{kNewAxis, 1, j}].shape()), (Shape{1, 3, 5}));
}

// The shapes of PyTorch 2.15.
TEST(BracketsTest, ATensorWithoutAxesStandsWhereANumberCould) {
  Random random(9);
  const Tensor x = random.tensor({2, 3, 4, 5}), one = tensor(1), two = tensor({0, 1});
  expect_same_bits(x[{one, Slice(), two}], x[{1, Slice(), two}]);
  expect_same_bits(x[{Slice(), one, Slice(), two}], x[{Slice(), 1, Slice(), two}]);
  expect_same_bits(x[{two, one, two}], x[{two, 1, two}]);
  expect_same_bits(x[{two, Slice(), one, two}], x[{two, Slice(), 1, two}]);
  expect_same_bits(x[{one, two, Slice(), two}], x[{1, two, Slice(), two}]);
  expect_same_bits(x[{one, Slice(), one}], x[{1, Slice(), 1}]);
  expect_same_bits(x[{one, Slice({}, {}, -1), two}], x[{1, Slice({}, {}, -1), two}]);
  EXPECT_EQ((x[{one, Slice(), two}].shape()), (Shape{3, 2, 5}));
  const Tensor y = zeros({2, 3, 4});
  assign(y, {one, Slice(), two}, ones({3, 2}));
  expect_close(sum(y, {0, 1}), {3, 3, 0, 0});
}

TEST(BracketsTest, AMaskMeansThePositionsWhereItIsTrue) {
  const Tensor x = counted({2, 3});
  expect_close(x[x > 2], {3, 4, 5});
  expect_close(x[tensor({false, true})], tensor({{3., 4., 5.}}));
  expect_close((x[{Slice(), tensor({true, false, true})}]), tensor({{0., 2.}, {3., 5.}}));
  EXPECT_EQ(x[x > 9].shape(), Shape{0});
  const Tensor mask = tensor({{true, false, false}, {false, true, true}});
  expect_close((counted({2, 3, 2})[{mask, 1}]), {1, 9, 11});
}

// NumPy 2.4's "".join(map(str, arange(5)[start:end:step])), for all pairs of bounds.
constexpr std::int64_t kSteps[] = {-1, -2, -7};
const std::optional<std::int64_t> kBounds[] = {kNone, -7, -5, -2, 0, 3, 4, 9};
const char* const kSlices[3][8][8] = {
    {
        {"43210", "43210", "4321", "4", "4321", "4", "", ""},
        {"", "", "", "", "", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"3210", "3210", "321", "", "321", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"3210", "3210", "321", "", "321", "", "", ""},
        {"43210", "43210", "4321", "4", "4321", "4", "", ""},
        {"43210", "43210", "4321", "4", "4321", "4", "", ""},
    },
    {
        {"420", "420", "42", "4", "42", "4", "", ""},
        {"", "", "", "", "", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"31", "31", "31", "", "31", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"31", "31", "31", "", "31", "", "", ""},
        {"420", "420", "42", "4", "42", "4", "", ""},
        {"420", "420", "42", "4", "42", "4", "", ""},
    },
    {
        {"4", "4", "4", "4", "4", "4", "", ""},
        {"", "", "", "", "", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"3", "3", "3", "", "3", "", "", ""},
        {"0", "0", "", "", "", "", "", ""},
        {"3", "3", "3", "", "3", "", "", ""},
        {"4", "4", "4", "4", "4", "4", "", ""},
        {"4", "4", "4", "4", "4", "4", "", ""},
    },
};

TEST(BracketsTest, NegativeStepsVisitThePositionsThatNumPyVisits) {
  const Tensor x = counted({5, 2}, DType::int64);
  for (std::size_t step = 0; step < 3; ++step)
    for (std::size_t start = 0; start < 8; ++start)
      for (std::size_t end = 0; end < 8; ++end) {
        const std::string want = kSlices[step][start][end];
        const Tensor y = x[{Slice(kBounds[start], kBounds[end], kSteps[step])}];
        ASSERT_EQ(y.shape(), (Shape{std::ssize(want), 2})) << step << ' ' << start << ' ' << end;
        for (std::int64_t i = 0; i < std::ssize(want); ++i)
          expect_same_bits(y[i], x[want[static_cast<std::size_t>(i)] - '0']);
      }
  EXPECT_EQ((x[{Slice(kNone, kNone, INT64_MIN)}].shape()), (Shape{1, 2}));
  EXPECT_EQ((zeros({0, 2})[{Slice(kNone, kNone, -1)}].shape()), (Shape{0, 2}));
}

TEST(BracketsTest, NegativeStepsStandBesideOtherIndices) {
  const Slice back(kNone, kNone, -1);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::bool_}) {
    Random random(1);
    const Tensor x = random.strided(random.tensor({4, 5, 3, 2}, dtype));
    const auto at = [&](int a, int b, int c, int d) { return x[{a, b, c, d}]; };
    const Tensor y = x[{Slice(3, 0, -2), 1, kNewAxis, back, Slice(1)}];
    ASSERT_EQ(y.shape(), (Shape{2, 1, 3, 1}));
    expect_same_bits((y[{1, 0, 2, 0}]), at(1, 1, 0, 1));
    // Beside tensors: before, behind and between them.
    const Tensor i = tensor({{0}, {3}}), j = tensor({1, 2, 0});
    const Tensor before = x[{back, i, j, back}], between = x[{i, back, j, back}];
    ASSERT_EQ(before.shape(), (Shape{4, 2, 3, 2}));
    expect_same_bits((before[{0, 1, 2, 0}]), at(3, 3, 0, 1));
    ASSERT_EQ(between.shape(), (Shape{2, 3, 5, 2}));
    expect_same_bits((between[{1, 0, 4, 1}]), at(3, 0, 1, 0));
  }
}

TEST(BracketsTest, GradientsAgreeWithDifferences) {
  const Tensor i = tensor({{0}, {2}}), j = tensor({1, 1, 0});
  expect_gradients({3, 4}, [&](const Tensor& x) { return square(x[{i, j}]); });
  expect_gradients({3, 2, 4}, [&](const Tensor& x) { return square(x[{i, Slice(), j}]); });
  const Tensor mask = tensor({true, false, true});
  expect_gradients({2, 3}, [&](const Tensor& x) { return square(x[{Slice(), mask}]); });
  const Slice back(kNone, kNone, -2);
  expect_gradients({3, 4}, [&](const Tensor& x) { return pow(x[{back, back}], 3); });
  expect_gradients({3, 4}, [&](const Tensor& x) { return pow(x[{j, back}], 3); });
}

TEST(AssignTest, WritesToThePlacesThatBracketsRead) {
  for (const DType dtype : {DType::float32, DType::float16, DType::int64}) {
    const Tensor x = counted({3, 4}, dtype);
    assign(x, {tensor({2, 0}), Slice(1, 3)}, tensor({{10., 20.}, {30., 40.}}));
    expect_close(x, tensor({{0., 30., 40., 3.}, {4., 5., 6., 7.}, {8., 10., 20., 11.}}));
    assign(x, {x > 9}, -1);
    expect_close(x, tensor({{0., -1., -1., 3.}, {4., 5., 6., 7.}, {8., -1., -1., -1.}}));
    assign(x, {1, Slice(0, 2)}, 7);
    expect_close(x[1], {7, 7, 6, 7});
  }
}

TEST(AssignTest, NegativeStepsWriteBackwards) {
  const Slice back(kNone, kNone, -1);
  for (const DType dtype : {DType::float32, DType::float16, DType::int64}) {
    const Tensor x = counted({2, 3}, dtype);
    assign(x, {Slice(), back}, tensor({10., 20., 30.}));
    expect_close(x, tensor({{30., 20., 10.}, {30., 20., 10.}}));
    assign(x, {back, Slice(2, 0, -1)}, tensor({{1., 2.}, {3., 4.}}));
    expect_close(x, tensor({{30., 4., 3.}, {30., 2., 1.}}));
    assign(x, {tensor({1}), back}, tensor({7., 8., 9.}));
    expect_close(x[1], {9, 8, 7});
    assign(x, {0, Slice(kNone, 0, -1)}, 5);
    expect_close(x[0], {30, 5, 5});
  }
  const Tensor x = tensor({1., 2., 3.});
  assign(x, {back}, x);  // reads before it writes
  expect_close(x, {3, 2, 1});
}

TEST(AssignTest, ReachesViewsOfEveryKind) {
  const Tensor x = counted({3, 4, 2}), rows = tensor({2, 0}), columns = tensor({3, 3});
  const Tensor turned = permute(x, {2, 0, 1});  // (2, 3, 4), whose axes are not one in memory
  assign(turned, {Slice(), rows, columns}, tensor({{1., 2.}, {3., 4.}}));
  expect_close((x[{2, 3}]), {1, 3});
  expect_close((x[{0, 3}]), {2, 4});
  const Tensor crossed = counted({3, 2, 4});
  assign(transpose(crossed, 0, 2), {Slice(), tensor({1}), tensor({2})}, 9);
  expect_close((crossed[{2, 1}]), {9, 9, 9, 9});
  expect_close((crossed[{2, 0}]), {16, 17, 18, 19});
}

TEST(AssignTest, TheLastOfSeveralValuesStays) {
  const Tensor x = zeros(3);
  assign(x, {tensor({1, 1, 2})}, tensor({5., 6., 7.}));
  expect_close(x, {0, 6, 7});
  const Tensor y = tensor({1., 2., 3.});
  assign(y, {tensor({2, 1, 0})}, y);  // reads before it writes
  expect_close(y, {3, 2, 1});
}

TEST(AssignTest, ThrowsForWhatCannotBeWritten) {
  const Tensor x = zeros({2, 3}), leaf = zeros(2).set_requires_grad();
  expect_throws<AutogradError>([&] { assign(leaf, {tensor({0})}, 1); }, "assign");
  expect_throws<ShapeError>([&] { assign(x, {Slice(kNone, kNone, -1)}, zeros(2)); },
                            "must broadcast to x[{...}]; got (2,) and (2, 3)");
  expect_throws<ShapeError>([&] { assign(x, {tensor({0})}, zeros(2)); },
                            "must broadcast to x[{...}]; got (2,) and (1, 3)");
  expect_throws<IndexError>([&] { assign(x, {tensor({2})}, 1); }, "in [0, 2); got 2");
  const NoGradGuard guard;
  assign(leaf, {tensor({0})}, 1);
  expect_close(leaf, {1, 0});
}

TEST(BracketsTest, ThrowForIndicesThatDoNotFit) {
  const Tensor x = zeros({2, 3});
  expect_throws<IndexError>(
      [&] {
        x[tensor({0, -3})];
      },
      "an index, counted from the start, must be in [0, 2); got -1");
  expect_throws<DTypeError>([&] { x[tensor({0.5})]; }, "must be bool, int32 or int64; got float32");
  expect_throws<ShapeError>(
      [&] {
        x[tensor({true, false, true})];
      },
      "a mask must have the shape of the axes that it indexes; got (3,)");
  expect_throws<ShapeError>(
      [&] {
        x[{tensor({0}), tensor({0}), tensor({0})}];
      },
      "at most one index per axis and one kEllipsis; got 3 and 0");
  expect_throws<ShapeError>(
      [&] {
        x[{tensor({0, 1}), tensor({0, 1, 2})}];
      },
      "shapes must broadcast; got (2,) and (3,)");
  expect_throws<ValueError>([&] { x[Tensor()]; }, "must be defined");
  expect_throws<ValueError>([&] { x[{Slice(0, 2, 0)}]; }, "a step must not be 0; got 0");
}

TEST(MaskTest, FillsAndSelects) {
  const Tensor x = counted({2, 3}), mask = tensor({true, false, true});
  expect_close(masked_fill(x, mask, -1), tensor({{-1., 1., -1.}, {-1., 4., -1.}}));
  EXPECT_EQ(masked_fill(counted({3}, DType::int64), mask, 2).dtype(), DType::int64);
  expect_close(masked_select(x, mask), {0, 2, 3, 5});
  expect_close(masked_select(tensor(5.), mask), {5, 5});
  expect_gradients({2, 3}, [&](const Tensor& in) { return square(masked_fill(in, mask, 3)); });
  expect_gradients({2, 3}, [&](const Tensor& in) { return square(masked_select(in, mask)); });
  expect_throws<ShapeError>([&] { masked_fill(mask, ones({2, 3}) > 0, 1); }, "must broadcast to");
  expect_throws<DTypeError>([&] { masked_select(x, x); }, "the mask must be bool; got float32");
}

TEST(MaskTest, NonzeroGivesCoordinatesInOrder) {
  Random random(2);
  for (const std::int64_t n : {0, 7, 400}) {
    const Tensor x = round(random.tensor({n, 3, 5})), at = nonzero(random.strided(x));
    const auto values = x.to_vector<double>();
    std::vector<double> want;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      if (values[static_cast<std::size_t>(i)] != 0)
        for (const std::int64_t c : {i / 15, i / 5 % 3, i % 5})
          want.push_back(static_cast<double>(c));
    ASSERT_EQ(at.size(1), 3);
    expect_close(at, want);
  }
  expect_close(nonzero(tensor({0., NAN, -0.})), tensor({{1}}));
  EXPECT_EQ(nonzero(tensor(1.)).shape(), (Shape{1, 0}));
}

TEST(MaskTest, OneHotMarksTheClass) {
  expect_close(one_hot(tensor({1, 0}), 3), tensor({{0, 1, 0}, {1, 0, 0}}));
  EXPECT_EQ(one_hot(tensor({{2, 0}})).shape(), (Shape{1, 2, 3}));
  expect_throws<IndexError>([] { one_hot(tensor({3}), 3); },
                            "one_hot: an index must be in [0, 3); got 3");
  expect_throws<ValueError>([] { one_hot(tensor({3}), -7); }, "one_hot: the number of classes");
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  expect_throws<IndexError>(
      [&] { one_hot(full({1}, largest, {.dtype = DType::int64})); },
      concat("one_hot: an index must be in [0, ", largest, "); got ", largest));
}

TEST(ScatterTest, OnlyTheElementThatStaysGetsTheGradient) {
  const Tensor index = tensor({{1, 1, 0}, {2, 0, 2}});
  const Tensor x = counted({2, 3}), src = counted({2, 4}) + 10.;
  expect_close(scatter(x, 1, index, src), tensor({{12., 11., 2.}, {15., 4., 16.}}));
  expect_close(scatter(x, 1, index, -1), tensor({{-1., -1., 2.}, {-1., 4., -1.}}));
  expect_gradients({2, 3}, [&](const Tensor& in) {
    return square(scatter(in, 1, index, to(src, DType::float64)));
  });
  expect_gradients({2, 4}, [&](const Tensor& in) {
    return square(scatter(to(x, DType::float64), 1, index, in));
  });
}

TEST(IndexAddTest, AddsSlicesByIndex) {
  const Tensor x = counted({3, 2}), src = ones({4, 2}), index = tensor({2, 0, 2, 2});
  expect_close(index_add(x, 0, index, src, 10), tensor({{10., 11.}, {2., 3.}, {34., 35.}}));
  expect_gradients({3, 2}, [&](const Tensor& in) {
    return square(index_add(in, 0, index, ones({4, 2}, {.dtype = DType::float64}), 2));
  });
  expect_gradients({3, 4}, [&](const Tensor& in) {
    return square(index_add(zeros({3, 3}, {.dtype = DType::float64}), 1, index, in, 0.5));
  });
  expect_throws<ShapeError>([&] { index_add(x, 1, index, src); }, "a slice per index along axis 1");
}

TEST(IndexFillTest, SetsSlicesByIndex) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64}) {
    Random random(1);
    const Tensor x = random.strided(counted({2, 3}, dtype)), index = tensor({2, 0, -1});
    expect_close(index_fill(x, 1, index, 9), tensor({{9., 1., 9.}, {9., 4., 9.}}));
    expect_close(index_fill(x, 0, to(tensor({-2}), DType::int32), -1),
                 tensor({{-1., -1., -1.}, {3., 4., 5.}}));
    expect_same_bits(index_fill(x, 0, empty({0}, {.dtype = DType::int64}), 9), x);
    expect_close(x, tensor({{0., 1., 2.}, {3., 4., 5.}}));
  }
  EXPECT_EQ(index_fill(zeros({0, 3}), 1, tensor({0}), 1).shape(), (Shape{0, 3}));
}

TEST(IndexFillTest, TheValueGetsTheGradientOfEachPlaceOnce) {
  const Tensor index = tensor({2, 0, 2});
  expect_gradients({2, 3}, [&](const Tensor& x) { return square(index_fill(x, 1, index, 3)); });
  expect_gradients({}, [&](const Tensor& value) {
    return square(index_fill(ones({2, 3}, {.dtype = DType::float64}), 1, index, value));
  });
  const Tensor value = tensor(1.).set_requires_grad();
  sum(index_fill(zeros({2, 3}), 1, index, value)).backward();
  expect_close(value.grad(), {4});
}

TEST(IndexFillTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = zeros({2, 3}), index = tensor({1});
  expect_throws<IndexError>([&] { index_fill(x, 0, tensor({2}), 1); }, "in [0, 2); got 2");
  expect_throws<ShapeError>([&] { index_fill(x, 2, index, 1); }, "axis must be in [-2, 2); got 2");
  expect_throws<ShapeError>([&] { index_fill(x, 0, index, ones({1})); }, "no axes and index one");
  expect_throws<DTypeError>([&] { index_fill(x, 0, ones({1}), 1); }, "int32 or int64; got float32");
  expect_throws<DTypeError>([&] { index_fill(x, 0, index, tensor(1)); }, "float32 and int64");
}

}  // namespace
}  // namespace ringrad
