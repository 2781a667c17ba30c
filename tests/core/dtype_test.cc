#include "ringrad/core/dtype.h"

#include <gtest/gtest.h>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

constexpr DType kAll[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                          DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

TEST(DTypeTest, PromotesByTheTable) {
  constexpr DType f4 = DType::float32, f8 = DType::float64, f2 = DType::float16,
                  b2 = DType::bfloat16, i4 = DType::int32, i8 = DType::int64, u1 = DType::uint8,
                  b1 = DType::bool_;
  constexpr DType kTable[kNumDTypes][kNumDTypes] = {
      // f4  f8  f2  b2  i4  i8  u1  b1
      {f4, f8, f4, f4, f4, f4, f4, f4},  // f4
      {f8, f8, f8, f8, f8, f8, f8, f8},  // f8
      {f4, f8, f2, f4, f2, f2, f2, f2},  // f2
      {f4, f8, f4, b2, b2, b2, b2, b2},  // b2
      {f4, f8, f2, b2, i4, i8, i4, i4},  // i4
      {f4, f8, f2, b2, i8, i8, i8, i8},  // i8
      {f4, f8, f2, b2, i4, i8, u1, u1},  // u1
      {f4, f8, f2, b2, i4, i8, u1, b1},  // b1
  };
  for (int i = 0; i < kNumDTypes; ++i)
    for (int j = 0; j < kNumDTypes; ++j)
      EXPECT_EQ(promote(kAll[i], kAll[j]), kTable[i][j]) << kAll[i] << " with " << kAll[j];
}

TEST(DTypeTest, DispatchCallsWithTheElementType) {
  for (const DType dtype : kAll) {
    int calls = 0;
    dispatch_dtype(dtype, [&]<class T>() {
      ++calls;
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(sizeof(T), size_bytes(dtype));
    });
    EXPECT_EQ(calls, 1) << dtype;
  }
}

TEST(DTypeTest, DispatchReturnsWhatTheBodyReturns) {
  EXPECT_EQ(dispatch_dtype(DType::int64, []<class T>() { return sizeof(T); }), 8u);
  EXPECT_EQ(dispatch_floating(DType::bfloat16, []<class T>() { return sizeof(T); }), 2u);
  EXPECT_EQ(dispatch_index(DType::int32, []<class T>() { return sizeof(T); }), 4u);
}

TEST(DTypeTest, NarrowDispatchRefusesOtherTypes) {
  for (const DType dtype : kAll) {
    const auto floating = [&] { dispatch_floating(dtype, []<class T>() {}); };
    if (is_floating(dtype))
      EXPECT_NO_THROW(floating()) << dtype;
    else
      EXPECT_THROW(floating(), InternalError) << dtype;
  }
  EXPECT_THROW(dispatch_index(DType::uint8, []<class T>() {}), InternalError);
}

TEST(DTypeTest, ClassesAreDisjoint) {
  int floating = 0, integral = 0;
  for (const DType dtype : kAll) {
    EXPECT_FALSE(is_floating(dtype) && is_integral(dtype)) << dtype;
    floating += is_floating(dtype);
    integral += is_integral(dtype);
  }
  EXPECT_EQ(floating, 4);
  EXPECT_EQ(integral, 3);
  EXPECT_FALSE(is_floating(DType::bool_) || is_integral(DType::bool_));
}

TEST(DTypeTest, ArithmeticHappensInWiderTypes) {
  static_assert(std::is_same_v<MathType<float16>, float>);
  static_assert(std::is_same_v<MathType<bfloat16>, float>);
  static_assert(std::is_same_v<MathType<double>, double>);
  static_assert(std::is_same_v<MathType<std::uint8_t>, std::uint8_t>);
  static_assert(std::is_same_v<AccumulateType<bfloat16>, float>);
  static_assert(std::is_same_v<AccumulateType<double>, double>);
  static_assert(std::is_same_v<AccumulateType<std::uint8_t>, std::int64_t>);
  static_assert(std::is_same_v<AccumulateType<bool>, std::int64_t>);
}

TEST(DTypeTest, PrintsItsName) {
  EXPECT_EQ(name(DType::bool_), "bool");
  EXPECT_EQ(name(DType::bfloat16), "bfloat16");
  EXPECT_EQ(concat(DType::float32, ' ', DType::uint8), "float32 uint8");
}

TEST(DTypeTest, ChecksNameTheOperationAndTheTypes) {
  const Where here = Where::current();
  expect_throws<DTypeError>([&] { check_floating("relu", DType::int32, here); },
                            "relu: needs a floating dtype; got int32");
  expect_throws<DTypeError>(
      [&] { check_same_dtype("matmul", DType::float32, DType::float64, here); },
      "matmul: dtypes must be equal; got float32 and float64");
  expect_throws<DTypeError>([&] { check_index("gather", DType::uint8, here); },
                            "gather: needs int32 or int64 indices; got uint8");
  EXPECT_NO_THROW(check_floating("relu", DType::bfloat16, here));
  EXPECT_NO_THROW(check_same_dtype("matmul", DType::int64, DType::int64, here));
  EXPECT_NO_THROW(check_index("gather", DType::int32, here));
}

}  // namespace
}  // namespace ringrad
