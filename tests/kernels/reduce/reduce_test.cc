#include "ringrad/kernels/reduce/reduce.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using testing::Team;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                             DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

// Some axes of x to reduce, in any order, and the elements along them.
struct Reduction {
  Shape axes;
  std::vector<std::vector<double>> groups;
  Shape shape, kept_shape;  // of the result, without and with keepdim

  Reduction(const Tensor& x, const Shape& axes) : axes(axes) {
    std::vector<bool> reduced(static_cast<std::size_t>(x.dims()), axes.empty());
    for (const std::int64_t axis : axes)
      reduced[static_cast<std::size_t>((axis + x.dims()) % x.dims())] = true;
    for (int i = 0; i < x.dims(); ++i) {
      const bool gone = reduced[static_cast<std::size_t>(i)];
      if (!gone) shape.push_back(x.shape()[i]);
      kept_shape.push_back(gone ? 1 : x.shape()[i]);
    }
    groups = reference::reduction_groups(x.to_vector<double>(),
                                         {x.shape().begin(), x.shape().end()}, reduced);
  }

  static Shape some_axes(Random& random, int dims) {
    Shape axes;
    for (int i = 0; i < dims; ++i)
      if (random.chance(0.5)) axes.push_back(random.chance(0.3) ? i - dims : i);
    return axes;
  }

  std::vector<double> expected(const std::function<double(const std::vector<double>&)>& f) const {
    std::vector<double> values;
    for (const auto& group : groups) values.push_back(f(group));
    return values;
  }
};

double largest(const std::vector<double>& group) { return group[reference::argmax(group)]; }
double smallest(const std::vector<double>& group) { return group[reference::argmin(group)]; }

void expect_agreement(const Tensor& x, const Shape& axes) {
  const Reduction r(x, axes);
  const double n = static_cast<double>(r.groups.empty() ? 1 : r.groups[0].size());
  const double slack = 16 * std::sqrt(n) + 16;
  expect_close(kernels::sum(x, axes), r.expected(reference::sum), slack);
  EXPECT_EQ(kernels::sum(x, axes).shape(), r.shape);
  EXPECT_EQ(kernels::sum(x, axes, true).shape(), r.kept_shape);
  expect_close(kernels::max(x, axes), r.expected(largest), 0);
  expect_close(kernels::min(x, axes, true), r.expected(smallest), 0);
  EXPECT_EQ(kernels::max(x, axes).shape(), r.shape);
  EXPECT_EQ(kernels::min(x, axes, true).shape(), r.kept_shape);
  if (!is_floating(x.dtype())) return;
  expect_close(kernels::prod(x, axes), r.expected(reference::prod), slack);
  expect_close(kernels::norm(x, axes, true), r.expected(reference::norm), slack);
  expect_close(kernels::mean(x, axes), r.expected(reference::mean), slack);
  if (n > 1)
    expect_close(kernels::var(x, axes),
                 r.expected([](const auto& group) { return reference::var(group, 1); }), slack);
  expect_close(kernels::var(x, axes, 0, true),
               r.expected([](const auto& group) { return reference::var(group, 0); }), slack);
}

// -- Properties ---------------------------------------------------------------------------------

TEST(ReduceTest, ResultsDoNotDependOnTheNumberOfThreads) {
  Random random(1);
  const Tensor x = random.tensor({300, 7, 411});
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{2}, Shape{0, 2}, Shape{0, 1}}) {
    const Team one(1);
    const Tensor sum = kernels::sum(x, axes), var = kernels::var(x, axes),
                 max = kernels::max(x, axes);
    const Team three(3);
    expect_same_bits(kernels::sum(x, axes), sum);
    expect_same_bits(kernels::var(x, axes), var);
    expect_same_bits(kernels::max(x, axes), max);
  }
}

// Vectors are loaded only where they are aligned; the order of additions is the same elsewhere.
TEST(ReduceTest, ResultsDoNotDependOnWhereATensorLies) {
  Random random(3);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor memory = random.tensor({3 * 24'000 + 1}, dtype);
    const Tensor aligned = kernels::clone(view::slice(memory, 0, 1, 3 * 24'000 + 1));
    for (const Shape& shape : {Shape{3, 24'000}, Shape{24'000, 3}, Shape{90, 10, 80}}) {
      const Tensor x = view::reshape(aligned, shape);
      const Tensor y = view::reshape(view::slice(memory, 0, 1, 3 * 24'000 + 1), shape);
      for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{0, -1}})
        expect_same_bits(kernels::sum(y, axes), kernels::sum(x, axes));
    }
  }
}

TEST(ReduceTest, TenMillionFloatsSumToTheLastPlaces) {
  const std::int64_t n = 10'000'000;
  const Tensor tenths = full({n}, 0.1f);
  EXPECT_NEAR(kernels::sum(tenths).item<double>(), static_cast<double>(n) * double{0.1f}, 0.2);
  EXPECT_NEAR(kernels::sum(view::reshape(tenths, {n / 10, 10}), {0}).to_vector<double>()[3],
              static_cast<double>(n) / 10 * double{0.1f}, 0.02);
}

// Two neighbours at a time, far fewer than the lanes.
TEST(ReduceTest, MillionsOfShortRunsSumToTheLastPlaces) {
  const Tensor tenths = full({1'000'000, 5, 2}, 0.1f);
  expect_close(kernels::sum(tenths, {0, 2}), std::vector<double>(5, 2e6 * double{0.1f}));
}

TEST(ReduceTest, HalvesAccumulateInFloat) {
  const Tensor ones_ = ones({5000}, {.dtype = DType::bfloat16});
  EXPECT_EQ(kernels::sum(ones_).item<double>(),
            4992);  // 5000 rounded to 8 bits; a bfloat16 sum would stop at 256
  EXPECT_EQ(kernels::mean(ones_).item<double>(), 1);
}

TEST(ReduceTest, VarianceSurvivesALargeMean) {
  Random random(2);
  const Tensor x = random.tensor({4000}, 999.5, 1000.5);
  const Reduction r(x, {});
  expect_close(kernels::var(x), {reference::var(r.groups[0], 1)}, 64);
}

// The mean of floats near 1e5 is known only to 0.004: not exactly enough for a deviation of 0.1.
// The error of PyTorch 2.15 is 5e-8 of the variance.
TEST(ReduceTest, VarianceDoesNotDependOnTheMean) {
  Random random(3);
  for (const double offset : {1e2, 1e3, 1e4, 1e5})
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}}) {
      SCOPED_TRACE(concat(offset, ' ', axes));
      const Tensor x = random.tensor({60, 70}, offset - 0.1, offset + 0.1);
      const Reduction r(x, axes);
      std::vector<double> expected;
      for (const auto& group : r.groups) expected.push_back(reference::var(group, 1));
      const auto actual = kernels::var(x, axes).to_vector<double>();
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], 5e-7 * expected[i]);
    }
  for (const double value : kernels::var(full({3, 41}, 10000.1f), {1}).to_vector<double>())
    EXPECT_EQ(value, 0);
}

TEST(ReduceTest, IntegersSumInInt64) {
  const Tensor bytes = full({1000}, 255, {.dtype = DType::uint8});
  EXPECT_EQ(kernels::sum(bytes).dtype(), DType::int64);
  EXPECT_EQ(kernels::sum(bytes).item<std::int64_t>(), 255'000);
  EXPECT_EQ(kernels::sum(full({3}, true, {.dtype = DType::bool_})).item<std::int64_t>(), 3);
  const Tensor large = full({2}, std::numeric_limits<std::int64_t>::max(), {.dtype = DType::int64});
  EXPECT_EQ(kernels::sum(large).item<std::int64_t>(), -2);  // modulo 2^64
}

TEST(ReduceTest, ProductsMayPassThroughNumbersOutsideTheDTypesRange) {
  const Tensor large = full({200}, 1e30f), small = full({200}, 1e-30f);
  const Tensor x = kernels::concatenate(std::vector<Tensor>{large, small}, 0);
  EXPECT_EQ(kernels::prod(full({3}, 1e30f)).item(), std::numeric_limits<float>::infinity());
  expect_close(kernels::prod(view::reshape(x, {2, 200}), {0}), std::vector<double>(200, 1));
  expect_close(kernels::prod(view::slice(x, 0, 197, 203)), {1});
}

TEST(ReduceTest, IntegersMultiplyInInt64) {
  EXPECT_EQ(kernels::prod(tensor({3, -5, 7})).item<std::int64_t>(), -105);
  EXPECT_EQ(kernels::prod(full({70}, 2, {.dtype = DType::int64})).item<std::int64_t>(), 0);
  for (const DType dtype : {DType::uint8, DType::bool_, DType::int32}) {
    const Tensor y = kernels::prod(full({2, 3}, 1, {.dtype = dtype}), {1});
    EXPECT_EQ(y.dtype(), DType::int64);
    expect_close(y, {1, 1});
  }
}

TEST(ReduceTest, NanSpreadsFromAnyPlace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor({300, 130});
    const std::int64_t row = random.integer(0, 300), column = random.integer(0, 130);
    kernels::fill_(view::select(view::select(x, 0, row), 0, column), kNan);
    for (const Tensor& y : {x, view::transpose(x, 0, 1)}) {
      const int axis = y.is(x) ? 1 : 0;
      for (const auto& result :
           {kernels::max(y, {axis}), kernels::min(y, {axis}), kernels::sum(y, {axis})}) {
        const auto values = result.to_vector<float>();
        for (std::int64_t i = 0; i < 300; ++i)
          EXPECT_EQ(std::isnan(values[static_cast<std::size_t>(i)]), i == row);
      }
    }
    EXPECT_TRUE(std::isnan(kernels::max(x).item()));
    EXPECT_TRUE(std::isnan(kernels::min(kernels::cast(x, DType::bfloat16)).item()));
  }
}

TEST(ReduceTest, InfinitiesAreOrdered) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kernels::max(tensor({-inf, -inf})).item(), -inf);
  EXPECT_EQ(kernels::min(tensor({inf, inf})).item(), inf);
  EXPECT_EQ(kernels::max(tensor({-inf, 3.f})).item(), 3);
}

TEST(ReduceTest, NothingSumsToZeroAndHasNoMean) {
  const Tensor x = empty({0, 3});
  expect_close(kernels::sum(x, {0}), {0, 0, 0});
  EXPECT_EQ(kernels::sum(empty({0}, {.dtype = DType::int32})).item<std::int64_t>(), 0);
  expect_close(kernels::mean(x, {0}), {kNan, kNan, kNan});
  expect_close(kernels::var(x, {0}), {kNan, kNan, kNan});
  expect_close(kernels::prod(x, {0}), {1, 1, 1});
  expect_close(kernels::norm(x, {0}), {0, 0, 0});
  EXPECT_EQ(kernels::max(x, {1}).shape(), Shape{0});
}

TEST(ReduceTest, ResultsKeepTheOrderOfAxes) {
  const Tensor x = ones({2, 3, 4, 5}, {.layout = Layout::channels_last});
  EXPECT_TRUE(kernels::sum(x, {0}, true).is_channels_last());
  EXPECT_TRUE(kernels::sum(x, {2, 3}).is_contiguous());
  EXPECT_TRUE(kernels::sum(ones({2, 3, 4}), {1}).is_contiguous());
}

TEST(ReduceTest, SumToUndoesBroadcasting) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    const Tensor y = random.tensor(random.shape(4, 5));
    Shape shape = y.shape();
    const std::int64_t dropped = random.integer(0, shape.size() + 1);
    for (std::int64_t i = 0; i < dropped; ++i) shape.erase(0);
    for (int i = 0; i < shape.size(); ++i)
      if (random.chance(0.4)) shape[i] = 1;
    const Tensor x = random.tensor(shape);
    EXPECT_EQ(kernels::sum_to(y, shape).shape(), shape);
    // <y, expand(x)> = <sum_to(y), x>: the definition of an adjoint.
    const auto dot = [](const Tensor& a, const Tensor& b) {
      const auto u = a.to_vector<double>(), v = b.to_vector<double>();
      double total = 0;
      for (std::size_t i = 0; i < u.size(); ++i) total += u[i] * v[i];
      return total;
    };
    EXPECT_NEAR(dot(y, view::expand(x, y.shape())), dot(kernels::sum_to(y, shape), x), 1e-3);
  }
}

// -- Agreement with the reference ---------------------------------------------------------------

TEST(ReduceTest, AgreesWithTheReferenceOnRandomViews) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const DType dtype = kDTypes[random.integer(0, kNumDTypes)];
    const Tensor x = random.view_of(random.tensor(random.shape(5, 6), dtype));
    expect_agreement(x, Reduction::some_axes(random, x.dims()));
  }
}

// Extents near the numbers of lanes, of rows in a block, and of elements in a unit.
TEST(ReduceTest, AgreesWithTheReferenceOnLargeExtents) {
  const Team team(2);
  Random random(7);
  for (const Shape& shape :
       {Shape{3, 17}, Shape{5, 63}, Shape{4, 64}, Shape{3, 70'001}, Shape{2, 257, 9}, Shape{700, 3},
        Shape{1030, 65}, Shape{3, 1025, 40}, Shape{2, 3, 1100}})
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::int32}) {
      const Tensor x = random.tensor(shape, dtype);
      for (int axis = 0; axis < x.dims(); ++axis) expect_agreement(x, {axis});
      expect_agreement(x, {});
      expect_agreement(x, {0, -1});
    }
}

// Extents near the sizes that a GPU's lane, warp, block and launch reduce, with rows that fill
// vectors and rows that do not.
TEST(ReduceTest, AgreesWithTheReferenceOnBothSidesOfEveryStep) {
  Random random(9);
  for (const Shape& shape :
       {Shape{70, 28}, Shape{40, 32}, Shape{40, 510}, Shape{5, 2044}, Shape{5, 2048},
        Shape{1, 33'000}, Shape{1, 33'333}, Shape{7, 1000}, Shape{8, 1001}, Shape{16, 1024},
        Shape{127, 36}, Shape{128, 132}, Shape{9'000, 4}, Shape{9'000, 3}, Shape{20'000, 3, 2}})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Tensor x = random.tensor(shape, dtype);
      for (const Shape& axes : {Shape{0}, Shape{-1}, Shape{0, -1}}) expect_agreement(x, axes);
    }
}

TEST(ReduceTest, ChannelSumsAgreeInEveryLayout) {
  Random random(8);
  for (const std::int64_t channels : {1, 3, 16, 40, 100}) {
    const Tensor x = random.tensor({4, channels, 13, 11});
    expect_agreement(x, {0, 2, 3});
    expect_agreement(kernels::to_layout(x, Layout::channels_last), {0, 2, 3});
    expect_agreement(kernels::to_layout(x, Layout::channels_last), {2, 3});
    expect_agreement(kernels::to_layout(x, Layout::channels_last), {1});
  }
}

// -- Errors -------------------------------------------------------------------------------------

TEST(ReduceTest, ThrowsForAbsentAndRepeatedAxes) {
  const Tensor x = ones({2, 3});
  expect_throws<ShapeError>([&] { kernels::sum(x, {2}); }, "sum: axis must be in [-2, 2); got 2");
  expect_throws<ShapeError>([&] { kernels::mean(x, {0, -2}); }, "mean: axes must be distinct");
}

TEST(ReduceTest, ThrowsWhenThereIsNothingToChooseFrom) {
  expect_throws<ShapeError>(
      [] {
        kernels::max(empty({0, 3}), {0});
      },
      "max: there must be an element to choose; got shape (0, 3) and axes (0,)");
  expect_throws<ShapeError>([] { kernels::min(empty({0})); }, "min: there must be an element");
}

TEST(ReduceTest, ThrowsForTheMeanOfIntegers) {
  expect_throws<DTypeError>([] { kernels::mean(arange(3)); },
                            "mean: needs a floating dtype; got int64");
  expect_throws<DTypeError>([] { kernels::var(arange(3)); }, "var: needs a floating dtype");
}

TEST(ReduceTest, ThrowsForANegativeCorrection) {
  expect_throws<ValueError>([] { kernels::var(ones({3}), {}, -1); },
                            "var: correction must not be negative; got -1");
}

TEST(ReduceTest, ThrowsWhenTheShapeToSumToDoesNotBroadcast) {
  expect_throws<ShapeError>(
      [] {
        kernels::sum_to(ones({2, 3}), {2});
      },
      "sum_to: the shape must broadcast to the tensor's; got (2,) and (2, 3)");
}

}  // namespace
}  // namespace ringrad
