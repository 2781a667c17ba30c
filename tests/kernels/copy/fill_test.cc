#include "ringrad/kernels/copy/fill.h"

#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;

TEST(FillTest, ConvertsTheNumberToEveryDType) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor x = ones({3}, {.dtype = dtype});
    kernels::fill_(x, -2.5);
    expect_close(x, {-2.5, -2.5, -2.5}, 0);
  }
  for (const DType dtype : {DType::int32, DType::int64}) {
    const Tensor x = ones({2}, {.dtype = dtype});
    kernels::fill_(x, -2.5);
    expect_close(x, {-2, -2});
  }
  const Tensor bytes = ones({2}, {.dtype = DType::uint8});
  kernels::fill_(bytes, 2.5);
  expect_close(bytes, {2, 2});
  const Tensor flags = zeros({2}, {.dtype = DType::bool_});
  kernels::fill_(flags, 0.5);
  // These numbers do not fit the dtype: without an error, other numbers would be written.
  for (const Scalar& number :
       {Scalar(-1), Scalar(256), Scalar(256.0), Scalar(std::numeric_limits<double>::quiet_NaN())})
    testing::expect_throws<ValueError>([&] { kernels::fill_(bytes, number); },
                                       "fill_: the number must fit the tensor's dtype; got ");
  expect_close(flags, {1, 1});
}

TEST(FillTest, TouchesOnlyItsView) {
  const Tensor x = ones({3, 4});
  kernels::fill_(view::slice(x, 1, 1, 4, 2), 7);
  expect_close(x, {1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7});
  kernels::zero_(view::select(x, 0, 1));
  expect_close(x, {1, 7, 1, 7, 0, 0, 0, 0, 1, 7, 1, 7});
}

TEST(FillTest, ZeroClearsWhateverWasThere) {
  const testing::Team team(2);
  const Tensor x = full({300, 301}, std::numeric_limits<float>::quiet_NaN());
  kernels::zero_(view::transpose(x, 0, 1));
  expect_same_bits(x, zeros({300, 301}));
}

TEST(FillTest, CountsAsAChange) {
  const Tensor x = zeros({3});
  const std::uint32_t before = x.version();
  kernels::fill_(x, 1);
  EXPECT_GT(x.version(), before);
}

TEST(FillTest, AnEmptyTensorIsFine) { kernels::zero_(empty({0, 2})); }

TEST(FillTest, AnExpandedTensorIsFilledWhereItLies) {
  const Tensor x = ones({2, 3});
  kernels::fill_(view::expand(view::slice(x, 1, 1, 2), {4, 2, 5}), 7);
  expect_close(x, {1, 7, 1, 1, 7, 1});
  const Tensor number = ones({});
  kernels::zero_(view::expand(number, {1000}));
  expect_close(number, {0});
}

TEST(FillTest, ThrowsWhenElementsCoincideOtherwise) {
  expect_throws<ValueError>(
      [] {
        kernels::fill_(view::as_strided(zeros({4}), {3, 2}, {1, 1}, 0), 1);
      },
      "must have its own place in memory; got shape (3, 2)");
}

}  // namespace
}  // namespace ringrad
