#include "ringrad/core/base/error.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "ringrad/tests/foreign_numbers.h"

namespace ringrad {
namespace {

int num_evaluations = 0;
int count_evaluation() { return ++num_evaluations; }

void require_even(int number, Where where = Where::current()) {
  RINGRAD_CHECK(number % 2 == 0, ValueError, where, "half: number must be even; got ", number);
}

TEST(ErrorTest, SaysTheMessageAndTheCallersLine) {
  unsigned line = 0;
  try {
    line = Where::current().line() + 1;
    require_even(3);
    FAIL() << "an odd number passed";
  } catch (const ValueError& error) {
    EXPECT_EQ(error.what(), concat("half: number must be even; got 3  [error_test.cc:", line, "]"));
    EXPECT_EQ(error.where().line(), line);
  }
}

TEST(ErrorTest, ContextExtendsTheMessageAndKeepsTheTypeAndTheLine) {
  unsigned line = 0;
  try {
    try {
      line = Where::current().line() + 1;
      require_even(3);
    } catch (Error& error) {
      error.add_context("in a test");
      error.add_context("again");
      throw;
    }
  } catch (const ValueError& error) {
    EXPECT_EQ(error.message(), "half: number must be even; got 3; in a test; again");
    EXPECT_EQ(error.what(), concat(error.message(), "  [error_test.cc:", line, "]"));
  }
}

// 65535 is the last line that a Where tells apart.
TEST(ErrorTest, KeepsFileAndLineInOneWord) {
  static_assert(sizeof(Where) == 8);
  EXPECT_EQ(to_string(Where::current("a_file.cc", 65535)), "a_file.cc:65535");
  EXPECT_EQ(to_string(Where::current("a_file.cc", 1u << 31)), "a_file.cc:65535");
  EXPECT_EQ(to_string(Where()), ":0");
}

TEST(ErrorTest, EveryTypeIsAnErrorAndAStandardException) {
  static_assert(std::is_base_of_v<std::runtime_error, Error>);
  const auto is_error = []<class... Types>() { return (std::is_base_of_v<Error, Types> && ...); };
  EXPECT_TRUE((is_error.operator()<ShapeError, DTypeError, DeviceError, IndexError, ValueError,
                                   AutogradError, DataError, OutOfMemoryError, CollectiveError,
                                   InternalError>()));
}

TEST(CheckTest, FormatsItsMessageOnlyWhenItFails) {
  num_evaluations = 0;
  RINGRAD_CHECK(true, ValueError, Where::current(), count_evaluation());
  EXPECT_EQ(num_evaluations, 0);
  EXPECT_THROW(RINGRAD_CHECK(false, ValueError, Where::current(), count_evaluation()), ValueError);
  EXPECT_EQ(num_evaluations, 1);
}

TEST(CheckTest, IsOneStatement) {
  // If the macro were an if without braces, this would not compile, or would take the wrong branch.
  if (num_evaluations < 0)
    RINGRAD_CHECK(false, ValueError, Where::current(), "unreachable");
  else
    num_evaluations = 7;
  EXPECT_EQ(num_evaluations, 7);
}

TEST(AssertTest, ThrowsInternalErrorWithTheCondition) {
  RINGRAD_ASSERT(1 + 1 == 2);
  try {
    RINGRAD_ASSERT(1 + 1 == 3);
    FAIL() << "a false assertion passed";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

TEST(ConcatTest, JoinsWhatItPrints) { EXPECT_EQ(concat("a", 1, '-', 2.5), "a1-2.5"); }

// Ranks exchange such text, and files hold it.
TEST(ConcatTest, IsTheSameInEveryLocale) {
  const testing::ForeignNumbers guard;
  EXPECT_EQ(concat(1234567, ' ', 1234.5), "1234567 1234.5");
}

}  // namespace
}  // namespace ringrad
