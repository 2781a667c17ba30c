#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/kernels/elementwise/elementwise_operands.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/elementwise.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// -- Tables: an operator beside its formula -------------------------------------------------------

struct BinaryCase {
  const char* name;
  Tensor (*kernel)(const Tensor& a, const Tensor& b, Where where);
  double (*formula)(double a, double b);
};

const BinaryCase kArithmetic[] = {
    {"add", kernels::binary<ops::Add>, [](double a, double b) { return a + b; }},
    {"sub", kernels::binary<ops::Sub>, [](double a, double b) { return a - b; }},
    {"mul", kernels::binary<ops::Mul>, [](double a, double b) { return a * b; }},
    {"maximum", kernels::binary<ops::Maximum>, [](double a, double b) { return std::max(a, b); }},
    {"minimum", kernels::binary<ops::Minimum>, [](double a, double b) { return std::min(a, b); }},
    {"add_relu", kernels::binary<ops::AddRelu>,
     [](double a, double b) { return std::max(a + b, 0.0); }},
};

const BinaryCase kComparisons[] = {
    {"eq", kernels::binary<ops::Eq>, [](double a, double b) { return double(a == b); }},
    {"ne", kernels::binary<ops::Ne>, [](double a, double b) { return double(a != b); }},
    {"lt", kernels::binary<ops::Lt>, [](double a, double b) { return double(a < b); }},
    {"le", kernels::binary<ops::Le>, [](double a, double b) { return double(a <= b); }},
    {"gt", kernels::binary<ops::Gt>, [](double a, double b) { return double(a > b); }},
    {"ge", kernels::binary<ops::Ge>, [](double a, double b) { return double(a >= b); }},
    {"and", kernels::binary<ops::LogicalAnd>, [](double a, double b) { return double(a && b); }},
    {"or", kernels::binary<ops::LogicalOr>, [](double a, double b) { return double(a || b); }},
};

Tensor expected(const BinaryCase& row, const Tensor& a, const Tensor& b) {
  return reference::elementwise([&](const auto& v) { return row.formula(v[0], v[1]); }, {a, b});
}

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

const BinaryCase kOfBits[] = {
    {"and", kernels::binary<ops::BitwiseAnd>,
     [](double a, double b) { return double(whole(a) & whole(b)); }},
    {"or", kernels::binary<ops::BitwiseOr>,
     [](double a, double b) { return double(whole(a) | whole(b)); }},
    {"xor", kernels::binary<ops::BitwiseXor>,
     [](double a, double b) { return double(whole(a) ^ whole(b)); }},
};

// Operands that broadcast to one shape.
const std::pair<Shape, Shape> kBroadcasts[] = {
    {{}, {}},         {{1}, {}},           {{3}, {3}},
    {{4, 3}, {3}},    {{4, 1}, {1, 3}},    {{2, 1, 4}, {3, 1}},
    {{0, 3}, {3}},    {{1}, {0}},          {{2, 3, 4, 5}, {3, 1, 1}},
    {{40, 30}, {30}}, {{40, 30}, {40, 1}}, {{}, {600, 2}},
};

// -- Properties -----------------------------------------------------------------------------------

TEST(ElementwiseBinaryTest, ChannelsLastStaysChannelsLast) {
  Random random(1);
  const Tensor x = kernels::to_layout(random.tensor({2, 3, 4, 5}), Layout::channels_last);
  const Tensor bias = random.tensor({1, 3, 1, 1});
  EXPECT_TRUE(kernels::unary(ops::Exp(), x).is_channels_last());
  EXPECT_TRUE(kernels::binary<ops::Add>(x, x).is_channels_last());
  EXPECT_TRUE(kernels::binary<ops::Add>(bias, x).is_channels_last());
  EXPECT_TRUE(kernels::binary<ops::Gt>(x, bias).is_channels_last());
  EXPECT_TRUE(kernels::unary_backward(ops::Relu(), x, x).is_channels_last());
}

TEST(ElementwiseBinaryTest, OperandsOfDifferentMemoryOrderGiveTheSameValues) {
  Random random(2);
  const Tensor a = random.tensor({2, 3, 4, 5}), b = random.tensor({2, 3, 4, 5});
  const Tensor b_last = kernels::to_layout(b, Layout::channels_last);
  expect_same_bits(kernels::binary<ops::Sub>(a, b_last), kernels::binary<ops::Sub>(a, b));
  expect_same_bits(kernels::binary<ops::Sub>(b_last, a), kernels::binary<ops::Sub>(b, a));
}

TEST(ElementwiseBinaryTest, NanAndInfinityFollowTheFormulas) {
  const Tensor x = doubles({kNan, kInf, -kInf, -0.0});
  const Tensor one = doubles({1});
  expect_close(kernels::binary<ops::Maximum>(x, one), {kNan, kInf, 1, 1});
  expect_close(kernels::binary<ops::Maximum>(one, x), {kNan, kInf, 1, 1});
  expect_close(kernels::binary<ops::Minimum>(one, x), {kNan, 1, -kInf, 0});
  expect_close(kernels::binary<ops::Eq>(x, x), {0, 1, 1, 1});
}

TEST(ElementwiseBinaryTest, IntegersWrapAround) {
  const Tensor x = full({40}, std::numeric_limits<std::int32_t>::max(), {.dtype = DType::int32});
  const Tensor one = full({40}, 1, {.dtype = DType::int32});
  const Tensor sum = kernels::binary<ops::Add>(x, one);
  EXPECT_EQ(sum.to_vector<std::int32_t>()[39], std::numeric_limits<std::int32_t>::min());
  const Tensor bytes = full({40}, 200, {.dtype = DType::uint8});
  expect_close(view::slice(kernels::binary<ops::Add>(bytes, bytes), 0, 0, 1), {144});
}

TEST(ElementwiseBinaryTest, IntegerPowersRoundTowardsZero) {
  const std::int64_t bases[] = {2, 2, 1, -1, -1, 5, 0}, exponents[] = {10, -1, -7, -7, -8, 0, 3};
  const Tensor a = from_values(std::span<const std::int64_t>(bases), {7});
  const Tensor b = from_values(std::span<const std::int64_t>(exponents), {7});
  expect_close(kernels::binary<ops::Pow>(a, b), {1024, 0, 1, -1, 1, 1, 0});
}

// The values of PyTorch 2.15; by 0, integers give 0 as in NumPy.
TEST(ElementwiseBinaryTest, DivisionRoundsDownAndTheRemainderHasTheDivisorsSign) {
  const Tensor a = doubles({7, -7, 7, -7, 5.5, -5.5, -0.0, 1, kInf, 6});
  const Tensor b = doubles({2, 2, -2, -2, 2, 2, 3, 0, 2, kInf});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = kernels::cast(a, dtype), y = kernels::cast(b, dtype);
    expect_close(kernels::binary<ops::FloorDivide>(x, y), {3, -4, -4, 3, 2, -3, 0, kInf, kNan, 0});
    expect_close(kernels::binary<ops::Remainder>(x, y), {1, 1, -1, -1, 1.5, 0.5, 0, kNan, kNan, 6});
  }
  for (const DType dtype : {DType::int32, DType::int64}) {
    const Tensor x = kernels::cast(doubles({7, -7, 7, -7, 6, -6, 5, -5}), dtype);
    const Tensor y = kernels::cast(doubles({2, 2, -2, -2, 3, 3, 0, -1}), dtype);
    expect_close(kernels::binary<ops::FloorDivide>(x, y), {3, -4, -4, 3, 2, -2, 0, 5});
    expect_close(kernels::binary<ops::Remainder>(x, y), {1, 1, -1, -1, 0, 0, 0, 0});
    expect_close(kernels::unary(ops::RightScalar<ops::FloorDivide>(-2), x),
                 {-4, 3, -4, 3, -3, 3, -3, 2});
  }
  const std::int32_t least = std::numeric_limits<std::int32_t>::min();
  const Tensor smallest = full({3}, least, {.dtype = DType::int32});
  expect_close(kernels::unary(ops::RightScalar<ops::FloorDivide>(-1), smallest), full({3}, least));
  expect_close(kernels::unary(ops::RightScalar<ops::Remainder>(-1), smallest), {0, 0, 0});
}

TEST(ElementwiseBinaryTest, LerpIsExactAtBothEnds) {
  const Tensor a = doubles({1e8, -3, 0.1, 1, 1}), b = doubles({0.1, 7, 1e8, 2, 3});
  const Tensor weight = doubles({1, 0, 1, 0.25, 2});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor y = kernels::lerp(kernels::cast(a, dtype), kernels::cast(b, dtype),
                                   kernels::cast(weight, dtype));
    expect_same_bits(y, kernels::cast(doubles({0.1, -3, 1e8, 1.25, 5}), dtype));
  }
}

TEST(ElementwiseBinaryTest, DtypesArePromoted) {
  const auto sum = [](DType a, DType b) {
    return kernels::binary<ops::Add>(ones({2}, {.dtype = a}), ones({2}, {.dtype = b})).dtype();
  };
  EXPECT_EQ(sum(DType::float16, DType::bfloat16), DType::float32);
  EXPECT_EQ(sum(DType::int64, DType::float16), DType::float16);
  EXPECT_EQ(sum(DType::uint8, DType::int32), DType::int32);
  EXPECT_EQ(sum(DType::bool_, DType::uint8), DType::uint8);
  const Tensor integers = ones({2}, {.dtype = DType::int32});
  EXPECT_EQ(kernels::binary<ops::Div>(integers, integers).dtype(), DType::float32);
}

TEST(ElementwiseBinaryTest, InPlaceWritesWhatTheOperatorReturns) {
  Random random(4);
  for (const DType dtype : kNumbers) {
    for (const Shape& shape : kShapes) {
      const Tensor y = operand(random, shape, dtype, -2, 2);
      const Tensor x = operand(random, shape, dtype, -2, 2);
      const Tensor strided = random.strided(y);
      const std::uint32_t version = strided.version();
      kernels::binary<ops::Mul>(strided, x, strided);
      expect_same_bits(strided, kernels::binary<ops::Mul>(y, x));
      EXPECT_GT(strided.version(), version);
      kernels::add_(strided, x, 2);
      kernels::unary(ops::RightScalar<ops::Add>(1), strided, strided);
      expect_close(strided, reference::elementwise(
                                [](const auto& v) { return v[0] * v[1] + 2 * v[1] + 1; }, {y, x}));
    }
  }
}

TEST(ElementwiseBinaryTest, InPlaceReadsOverlappingMemoryBeforeItIsWritten) {
  for (const std::int64_t n : {5, 5000}) {
    const Tensor whole = arange(n + 1);
    const Tensor values = testing::contiguous_copy(whole);
    const Tensor head = view::slice(whole, 0, 0, n), tail = view::slice(whole, 0, 1, n + 1);
    kernels::add_(tail, head);
    const auto sums = tail.to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], 2 * i + 1) << "at " << i;
  }
  const Tensor matrix = arange(9);
  const Tensor square = view::reshape(matrix, {3, 3});
  kernels::binary<ops::Add>(square, view::transpose(square, 0, 1), square);
  expect_close(square, {0, 4, 8, 4, 8, 12, 8, 12, 16});
}

// -- Agreement with the reference -----------------------------------------------------------------

TEST(ElementwiseBinaryTest, OperatorsAgreeWithTheReferenceOverBroadcastsAndDtypes) {
  Random random(11);
  for (const BinaryCase& row : kArithmetic)
    for (const DType dtype_a : kNumbers)
      for (const DType dtype_b : kNumbers) {
        for (const auto& [shape_a, shape_b] : kBroadcasts) {
          SCOPED_TRACE(concat(row.name, ' ', dtype_a, shape_a, ' ', dtype_b, shape_b));
          const Tensor a = operand(random, shape_a, dtype_a, -2, 2);
          const Tensor b = operand(random, shape_b, dtype_b, -2, 2);
          const DType wide = promote(a, b);
          const bool wraps_around = dtype_a != dtype_b || row.name == std::string("sub");
          if (wide == DType::uint8 && wraps_around) continue;
          const Tensor as_a = kernels::cast(a, wide), as_b = kernels::cast(b, wide);
          expect_close(row.kernel(a, b, Where::current()), expected(row, as_a, as_b));
          expect_close(row.kernel(random.strided(b), random.strided(a), Where::current()),
                       expected(row, as_b, as_a));
        }
      }
}

TEST(ElementwiseBinaryTest, DivisionAndPowerAgreeWithTheReference) {
  Random random(12);
  const BinaryCase rows[] = {
      {"div", kernels::binary<ops::Div>, [](double a, double b) { return a / b; }},
      {"pow", kernels::binary<ops::Pow>, [](double a, double b) { return std::pow(a, b); }},
      {"atan2", kernels::binary<ops::Atan2>, [](double a, double b) { return std::atan2(a, b); }},
      {"floor_divide", kernels::binary<ops::FloorDivide>,
       [](double a, double b) { return std::floor(a / b); }},
      {"lerp",
       [](const Tensor& a, const Tensor& b, Where where) { return kernels::lerp(a, b, b, where); },
       [](double a, double b) { return a + b * (b - a); }}};
  for (const BinaryCase& row : rows)
    for (const DType dtype : kFloats)
      for (const auto& [shape_a, shape_b] : kBroadcasts) {
        SCOPED_TRACE(concat(row.name, ' ', dtype, shape_a, shape_b));
        const Tensor a = random.tensor(shape_a, 0.2, 2, dtype);
        const Tensor b = random.tensor(shape_b, 0.2, 2, dtype);
        expect_close(row.kernel(a, b, Where::current()), expected(row, a, b));
      }
}

TEST(ElementwiseBinaryTest, ComparisonsAgreeWithTheReferenceAndAreBool) {
  Random random(13);
  for (const BinaryCase& row : kComparisons)
    for (const DType dtype : kAll)
      for (const auto& [shape_a, shape_b] : kBroadcasts) {
        SCOPED_TRACE(concat(row.name, ' ', dtype, shape_a, shape_b));
        // Few different values, so that some are equal.
        const auto draw = [&](const Shape& shape) {
          const Tensor x = kernels::unary(ops::Clamp(-1, 1), random.tensor(shape, DType::int64));
          return kernels::cast(x, dtype);
        };
        const Tensor a = draw(shape_a), b = draw(shape_b);
        const Tensor y = row.kernel(a, random.strided(b), Where::current());
        EXPECT_EQ(y.dtype(), DType::bool_);
        expect_close(y, expected(row, a, b));
      }
}

TEST(ElementwiseBinaryTest, OperatorsOfBitsAgreeWithTheReference) {
  Random random(15);
  for (const BinaryCase& row : kOfBits)
    for (const DType dtype : {DType::int32, DType::int64, DType::uint8, DType::bool_})
      for (const auto& [shape_a, shape_b] : kBroadcasts) {
        SCOPED_TRACE(concat(row.name, ' ', dtype, shape_a, shape_b));
        const Tensor a = random.tensor(shape_a, dtype), b = random.tensor(shape_b, dtype);
        const Tensor y = row.kernel(a, random.strided(b), Where::current());
        EXPECT_EQ(y.dtype(), dtype);
        expect_close(y, expected(row, a, b));
      }
  const Tensor bytes = full({2}, 12, {.dtype = DType::uint8});
  EXPECT_EQ(kernels::unary(ops::RightScalar<ops::BitwiseAnd>(4), bytes).dtype(), DType::uint8);
  expect_close(kernels::unary(ops::RightScalar<ops::BitwiseAnd>(4), bytes), {4, 4});
}

TEST(ElementwiseBinaryTest, WhereChoosesFromBroadcastOperands) {
  Random random(14);
  for (const DType dtype : kAll)
    for (const auto& [shape_a, shape_b] : kBroadcasts) {
      SCOPED_TRACE(concat(dtype, shape_a, shape_b));
      const Shape shape = broadcast_shapes("test", shape_a, shape_b, Where::current());
      const Tensor condition = random.strided(random.tensor(shape, DType::bool_));
      const Tensor a = random.tensor(shape_a, dtype), b = random.tensor(shape_b, dtype);
      const Tensor y = kernels::where(condition, a, b);
      EXPECT_EQ(y.dtype(), dtype);
      expect_close(y, reference::elementwise([](const auto& v) { return v[0] ? v[1] : v[2]; },
                                             {condition, a, b}));
    }
}

// -- Errors ---------------------------------------------------------------------------------------

TEST(ElementwiseBinaryTest, ThrowsWhenShapesDoNotBroadcast) {
  const Tensor a = ones({2, 3}), b = ones({4});
  expect_throws<ShapeError>([&] { kernels::binary<ops::Add>(a, b); },
                            "add: shapes must broadcast; got (2, 3) and (4,)");
  expect_throws<ShapeError>(
      [&] {
        kernels::add_(ones({3}), ones({2, 3}));
      },
      "must have the result's shape; got (3,) for a result of (2, 3)");
  expect_throws<ShapeError>(
      [&] { kernels::where(ones({2}, {.dtype = DType::bool_}), ones({3}), ones({3})); }, "where: ");
}

TEST(ElementwiseBinaryTest, ThrowsForDtypesWithoutTheOperation) {
  const Tensor flags = ones({2}, {.dtype = DType::bool_});
  expect_throws<DTypeError>([&] { kernels::binary<ops::Add>(flags, flags); },
                            "add: needs numbers; got bool");
  expect_throws<DTypeError>([&] { kernels::binary<ops::BitwiseOr>(flags, ones({2})); },
                            "bitwise_or: needs integers or bool; got float32");
  expect_throws<DTypeError>([&] { kernels::where(ones({2}), ones({2}), ones({2})); },
                            "where: the condition must be bool; got float32");
  const Tensor integers = ones({2}, {.dtype = DType::int64});
  expect_throws<DTypeError>([&] { kernels::add_(integers, ones({2})); },
                            "got int64 for a result of float32");
  expect_throws<DTypeError>([&] { kernels::add_(integers, integers, 0.5); },
                            "got int64 for a result of float32");
  expect_throws<DTypeError>([&] { kernels::binary<ops::Div>(integers, integers, integers); },
                            "got int64 for a result of float32");
}

TEST(ElementwiseBinaryTest, ThrowsForTensorsOnDifferentDevices) {
  const Tensor a = ones({2}), b = ones({2}, {.device = "cpu:1"});
  expect_throws<DeviceError>([&] { kernels::binary<ops::Add>(a, b); },
                             concat("got ", default_device(), " and cpu:1"));
  expect_throws<DeviceError>([&] { kernels::add_(a, b); },
                             concat("got ", default_device(), " and cpu:1"));
}

TEST(ElementwiseBinaryTest, ThrowsWhenWritingToRepeatedMemory) {
  const Tensor repeated = view::expand(ones({1, 3}), {2, 3});
  expect_throws<ValueError>(
      [&] {
        kernels::add_(repeated, ones({2, 3}));
      },
      "its own place in memory; got shape (2, 3) with strides (0, 1)");
}

}  // namespace
}  // namespace ringrad
