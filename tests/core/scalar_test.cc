#include "ringrad/core/scalar.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ringrad {
namespace {

TEST(ScalarTest, RemembersTheKindOfNumber) {
  EXPECT_EQ(Scalar(true).dtype(), DType::bool_);
  EXPECT_EQ(Scalar(3).dtype(), DType::int64);
  EXPECT_EQ(Scalar(std::uint8_t{3}).dtype(), DType::int64);
  EXPECT_EQ(Scalar(3.0f).dtype(), DType::float64);
  EXPECT_EQ(Scalar(bfloat16(3.0f)).dtype(), DType::float64);
  EXPECT_TRUE(Scalar(3.0).is_floating());
  EXPECT_FALSE(Scalar(3).is_floating());
}

TEST(ScalarTest, KeepsEveryInt64) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Scalar(kMax).to<std::int64_t>(), kMax);
  EXPECT_EQ(Scalar(kMax - 1).to<std::int64_t>(), kMax - 1);
  EXPECT_EQ(Scalar(std::numeric_limits<std::int64_t>::min()).to<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
}

TEST(ScalarTest, ConvertsAsCpp) {
  EXPECT_EQ(Scalar(2.75).to<int>(), 2);
  EXPECT_EQ(Scalar(-2.75).to<std::int64_t>(), -2);
  EXPECT_EQ(Scalar(7).to<double>(), 7.0);
  EXPECT_TRUE(Scalar(0.5).to<bool>());
  EXPECT_FALSE(Scalar(0).to<bool>());
  EXPECT_EQ(static_cast<float>(Scalar(1.00390625).to<bfloat16>()), 1.0f);  // a tie, to even
  EXPECT_EQ(static_cast<float>(Scalar(2049).to<float16>()), 2048.0f);
}

// A conversion that would give another number throws; all others agree with C++.
TEST(ScalarTest, RefusesWhatTheTypeCannotHold) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  for (const double number : {kNan, kInf, -kInf, 0x1p63, -0x1.8p63}) {
    EXPECT_THROW(Scalar(number).to<std::int64_t>(), ValueError) << number;
    EXPECT_THROW(Scalar(number).to<std::int32_t>(), ValueError) << number;
    EXPECT_THROW(Scalar(number).to<std::uint8_t>(), ValueError) << number;
    EXPECT_TRUE(Scalar(number).to<bool>());
  }
  EXPECT_EQ(Scalar(-0x1p63).to<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_THROW(Scalar(256).to<std::uint8_t>(), ValueError);
  EXPECT_THROW(Scalar(-1).to<std::uint8_t>(), ValueError);
  EXPECT_THROW(Scalar(-1).to<std::uint64_t>(), ValueError);
  EXPECT_THROW(Scalar(256.0).to<std::uint8_t>(), ValueError);
  EXPECT_EQ(Scalar(255.9).to<std::uint8_t>(), 255);
  EXPECT_EQ(Scalar(-0.9).to<std::uint8_t>(), 0);
  EXPECT_THROW(Scalar(kMax).to<std::int32_t>(), ValueError);
  EXPECT_THROW(Scalar(-2147483649.0).to<std::int32_t>(), ValueError);
  EXPECT_EQ(Scalar(-2147483648.9).to<std::int32_t>(), std::numeric_limits<std::int32_t>::min());
  EXPECT_THROW(Scalar(std::uint64_t{1} << 63), ValueError);
  EXPECT_EQ(Scalar(std::uint64_t{kMax}).to<std::int64_t>(), kMax);
  try {
    Scalar(kNan).to<int>();
  } catch (const ValueError& error) {
    EXPECT_EQ(error.where().line(), Where::current().line() - 2);
    EXPECT_EQ(error.message(),
              "number: as an integer of the type asked for it must be in [-2147483648, "
              "2147483647]; got nan");
  }
}

TEST(ScalarTest, NeverWidensATensorOfItsClass) {
  EXPECT_EQ(promote(DType::bfloat16, Scalar(0.1)), DType::bfloat16);
  EXPECT_EQ(promote(DType::float32, Scalar(0.1)), DType::float32);
  EXPECT_EQ(promote(DType::float16, Scalar(2)), DType::float16);
  EXPECT_EQ(promote(DType::uint8, Scalar(1000)), DType::uint8);
  EXPECT_EQ(promote(DType::int32, Scalar(true)), DType::int32);
  EXPECT_EQ(promote(DType::bool_, Scalar(true)), DType::bool_);
}

TEST(ScalarTest, LiftsATensorOfALowerClass) {
  EXPECT_EQ(promote(DType::int64, Scalar(0.5)), DType::float32);
  EXPECT_EQ(promote(DType::bool_, Scalar(0.5)), DType::float32);
  EXPECT_EQ(promote(DType::bool_, Scalar(2)), DType::int64);
}

}  // namespace
}  // namespace ringrad
