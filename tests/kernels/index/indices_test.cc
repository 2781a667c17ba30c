#include "ringrad/kernels/index/indices.h"

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_throws;
using ringrad::testing::host_device;
using ringrad::testing::Random;

void check(const Tensor& indices, std::int64_t bound,
           std::optional<std::int64_t> ignored = std::nullopt, Where where = Where::current()) {
  check_indices("gather", "index", indices, bound, where, ignored);
  synchronize(indices.device());  // a GPU reports errors only here
}

Tensor numbers(const Shape& shape, DType dtype) {
  const Tensor x = empty(shape, {.dtype = dtype, .device = host_device()});
  dispatch_index(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); ++i) x.data<T>()[i] = static_cast<T>(i);
  });
  return to_device(x, default_device());
}

TEST(IndicesTest, AcceptsExactlyTheRange) {
  for (const DType dtype : {DType::int32, DType::int64}) {
    EXPECT_NO_THROW(check(numbers({4, 10}, dtype), 40));
    expect_throws<IndexError>(
        [&] {
          check(numbers({4, 10}, dtype), 39);
        },
        "gather: index must be in [0, 39); got 39 at position (3, 9)");
  }
}

TEST(IndicesTest, NamesTheFirstOfSeveralInRowMajorOrder) {
  const Tensor x = view::transpose(numbers({3, 4}, DType::int64), 0, 1);  // rows 0 4 8, 1 5 9, ...
  expect_throws<IndexError>([&] { check(x, 6); }, "got 8 at position (0, 2)");
}

// On a GPU this takes the chunks of several blocks.
TEST(IndicesTest, NamesTheFirstOfManyFarApart) {
  for (const std::int64_t n : {1023, 1025, 100'000}) {
    const Tensor x = numbers({n}, DType::int32);
    EXPECT_NO_THROW(check(x, n));
    expect_throws<IndexError>([&] { check(x, n - 1); }, concat("got ", n - 1));
    expect_throws<IndexError>([&] { check(x, n / 3); }, concat("got ", n / 3, " at"));
  }
}

TEST(IndicesTest, NamesTheFirstCheckThatFails) {
  const Tensor x = numbers({5}, DType::int64);
  expect_throws<IndexError>(
      [&] {
        check_indices("gather", "index", x, 3, Where::current());
        check_indices("gather", "index", x, 2, Where::current());
      },
      "in [0, 3)");
  EXPECT_NO_THROW(check(x, 5));  // the earlier error is cleared
}

TEST(IndicesTest, RefusesNegativeOnes) {
  const Tensor x = full({5}, -1, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { check(x, 5); }, "got -1 at position (0,)");
  expect_throws<IndexError>([&] { check(full({}, -3, {.dtype = DType::int32}), 5); },
                            "got -3 at position ()");
}

TEST(IndicesTest, ExemptsTheIgnoredValueOnly) {
  const Tensor x = full({3}, -100, {.dtype = DType::int32});
  EXPECT_NO_THROW(check(x, 5, -100));
  expect_throws<IndexError>([&] { check(x, 5, -99); }, "in [0, 5) or be -99; got -100");
}

TEST(IndicesTest, AcceptsNothingInAnEmptyAxis) {
  EXPECT_NO_THROW(check(zeros({0}, {.dtype = DType::int64}), 0));
  expect_throws<IndexError>([] { check(zeros({1}, {.dtype = DType::int64}), 0); }, "in [0, 0)");
}

TEST(IndicesTest, MustBeInt32OrInt64) {
  expect_throws<DTypeError>([] { check(zeros({1}), 5); }, "got float32");
  expect_throws<DTypeError>([] { check(zeros({1}, {.dtype = DType::uint8}), 5); }, "got uint8");
}

}  // namespace
}  // namespace ringrad::kernels
