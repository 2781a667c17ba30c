#include "ringrad/kernels/attention/attention.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_throws;

TEST(AttentionTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = ones({1, 4, 3, 8});
  const auto expect_shapes = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                                 std::string_view text, Where where = Where::current()) {
    expect_throws<ShapeError>([&] { attention(q, k, v, {}); }, text, where);
  };
  expect_shapes(ones({4, 3, 8}), x, x, "q, k and v must have 4 axes; got (4, 3, 8)");
  expect_shapes(x, ones({1, 4, 3, 7}), x, "must be (B, H, T, D)");
  expect_shapes(x, x, ones({1, 4, 2, 8}), "must be (B, H, T, D)");
  expect_shapes(x, ones({1, 3, 3, 8}), ones({1, 3, 3, 8}), "multiple of those of k; got 4 and 3");
  expect_throws<ShapeError>(
      [&] {
        attention(x, x, x, {.mask = ones({2, 3})});
      },
      "must broadcast to (B, H, T, S) = (1, 4, 3, 3); got (2, 3)");
  expect_throws<DTypeError>(
      [&] {
        attention(x, x, x, {.mask = ones({3, 3}, {.dtype = DType::int64})});
      },
      "the mask must be bool or floating; got int64");
  expect_throws<DTypeError>(
      [&] {
        attention(x, ones({1, 4, 3, 8}, {.dtype = DType::float64}), x, {});
      },
      "float32 and float64");
  expect_throws<ValueError>([&] { attention(x, x, x, {.dropout = 1.5}); }, "got 1.5");
  expect_throws<ValueError>([&] { attention(x, x, x, {.window = -1}); }, "window");
}

}  // namespace
}  // namespace ringrad::kernels
