// The helpers themselves: a comparison that never fails would make every other test pass.

#include "ringrad/tests/testing.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ringrad/core/tensor.h"

namespace ringrad::testing {
namespace {

TEST(ExpectCloseTest, AllowsSlackTimesEpsilon) {
  expect_close(tensor({1 + 8 * 0x1p-23f}), {1});
  expect_close(tensor({1000 * (1 + 8 * 0x1p-23f)}), {1000});
  expect_close(full({1}, 1.0078125, {.dtype = DType::bfloat16}), {1});
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({1 + 64 * 0x1p-23f}), {1}), "1 of 1 elements");
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({1 + 0x1p-23f}), {1}, 0), "1 of 1 elements");
  EXPECT_NONFATAL_FAILURE(expect_close(full({1}, 1 + 0x1p-23, {.dtype = DType::float64}), {1}),
                          "1 of 1 elements");
  EXPECT_NONFATAL_FAILURE(expect_close(full({1}, 1.0625, {.dtype = DType::bfloat16}), {1}),
                          "1 of 1 elements");
}

TEST(ExpectCloseTest, NamesTheFirstAndTheWorstElement) {
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({{0, 1.5}, {9, 3}}), {0, 1, 2, 3}),
                          "2 of 4 elements of a float32 tensor (2, 2) differ\n"
                          "  first at (0, 1): got 1.5, expected 1, allowed difference 3.81");
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({{0, 1.5}, {9, 3}}), {0, 1, 2, 3}),
                          "worst at (1, 0): got 9, expected 2");
}

TEST(ExpectCloseTest, TakesNanAndInfinityLiterally) {
  expect_close(tensor({NAN, INFINITY}), {NAN, INFINITY});
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({NAN}), {1}), "got nan");
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({1.}), {NAN}), "expected nan");
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({1e30f}), {INFINITY}), "expected inf");
  EXPECT_NONFATAL_FAILURE(expect_close(tensor({INFINITY}), {-INFINITY}), "got inf");
}

TEST(ExpectCloseTest, ComparesShapes) {
  EXPECT_NONFATAL_FAILURE(expect_close(zeros({2, 3}), zeros({3, 2})),
                          "shapes differ: got (2, 3), expected (3, 2)");
  EXPECT_NONFATAL_FAILURE(expect_close(zeros({2}), {0}), "got 2 elements, expected 1");
}

TEST(ExpectCloseTest, IntegersMustBeEqual) {
  expect_close(arange(3), {0, 1, 2});
  EXPECT_NONFATAL_FAILURE(expect_close(arange(3), {0, 1, 3}), "got 2, expected 3");
}

TEST(ExpectSameBitsTest, SeesTheSignOfZero) {
  expect_same_bits(tensor({0.f}), tensor({0.f}));
  EXPECT_NONFATAL_FAILURE(expect_same_bits(tensor({0.f}), tensor({-0.f})),
                          "bits differ first at (0,)");
  EXPECT_NONFATAL_FAILURE(expect_same_bits(zeros({1}), zeros({1}, {.dtype = DType::int32})),
                          "got float32 (1,), expected int32 (1,)");
}

void refuse(Where where = Where::current()) { throw ValueError("refuse: never", where); }

TEST(ExpectThrowsTest, WantsTheTypeTheTextAndTheCaller) {
  expect_throws<ValueError>([] { refuse(); }, "refuse: never");
  EXPECT_NONFATAL_FAILURE(expect_throws<ShapeError>([] { refuse(); }, "refuse"),
                          "threw another type of error");
  EXPECT_NONFATAL_FAILURE(expect_throws<Error>([] { refuse(); }, "refuse"), "more special");
  EXPECT_NONFATAL_FAILURE(expect_throws<ValueError>([] { refuse(); }, "always"),
                          "message is not as expected");
  EXPECT_NONFATAL_FAILURE(expect_throws<ValueError>([] {}, "refuse"), "threw nothing");
  static const Where elsewhere = contiguous_copy(zeros({1})).made_at();
  EXPECT_NONFATAL_FAILURE(expect_throws<ValueError>([] { refuse(elsewhere); }, "refuse"),
                          "the error blames testing.cc");
}

TEST(RandomTest, StridedIsEqualButLiesElsewhere) {
  int unusual = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor(random.shape(4, 4));
    const Tensor y = random.strided(x);
    expect_same_bits(y, x);
    unusual += !y.is_contiguous();
  }
  EXPECT_GT(unusual, 50);
}

TEST(RandomTest, ViewsComeInManyKinds) {
  int repeated = 0, stepped = 0, reordered = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Tensor x = random.view_of(random.tensor({3, 4, 5}));
    for (int axis = 0; axis < x.dims(); ++axis)
      repeated += x.shape()[axis] > 1 && x.strides()[axis] == 0;
    stepped += x.dims() > 0 && x.strides()[x.dims() - 1] > 1;
    reordered += x.dims() > 1 && x.strides()[0] < x.strides()[x.dims() - 1];
  }
  for (const int kind : {repeated, stepped, reordered}) EXPECT_GT(kind, 20);
}

TEST(RandomTest, NamesItsSeedOnFailure) {
  EXPECT_NONFATAL_FAILURE(
      {
        Random random(4711);
        ADD_FAILURE() << "on purpose";
      },
      "seed 4711");
}

TEST(RandomTest, ValuesAreInRange) {
  Random random(1);
  for (const DType dtype :
       {DType::float32, DType::bfloat16, DType::int64, DType::uint8, DType::bool_})
    for (const double value : random.tensor({1000}, dtype).to_vector<double>()) {
      ASSERT_GE(value, dtype == DType::uint8 || dtype == DType::bool_ ? 0
                       : is_floating(dtype)                           ? -2
                                                                      : -10);
      ASSERT_LT(value, dtype == DType::bool_   ? 2
                       : dtype == DType::uint8 ? 20
                       : is_floating(dtype)    ? 2
                                               : 10);
    }
}

}  // namespace
}  // namespace ringrad::testing
