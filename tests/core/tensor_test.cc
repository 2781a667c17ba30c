#include "ringrad/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

constexpr DType kAll[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                          DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

TEST(TensorTest, IsAHandle) {
  const Tensor x = zeros({2});
  const Tensor y = x;
  y.data<float>()[0] = 5;
  EXPECT_EQ(x.data<float>()[0], 5);
  EXPECT_TRUE(x.is(y));
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(x.defined());
}

TEST(TensorTest, KnowsItsExtents) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(x.dims(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.size(1), 3);
  EXPECT_EQ(x.size(-1), 4);
  expect_throws<ShapeError>([&] { x.size(3); }, "size: axis must be in [-3, 3); got 3");
}

TEST(TensorTest, FillsEveryDType) {
  for (const DType dtype : kAll) {
    const Options options{.dtype = dtype, .device = "cpu:1"};
    EXPECT_EQ(zeros({3}, options).dtype(), dtype);
    EXPECT_EQ(zeros({3}, options).device(), Device("cpu:1"));
    expect_close(zeros({3}, options), {0, 0, 0});
    expect_close(ones({3}, options), {1, 1, 1});
    expect_close(full({2}, 7, options),
                 dtype == DType::bool_ ? std::vector<double>{1, 1} : std::vector<double>{7, 7});
    expect_close(eye(2, options), {1, 0, 0, 1});
    expect_close(scalar_tensor(1, options), {1});
  }
}

TEST(TensorTest, FreshTensorsHaveTheRequestedLayout) {
  EXPECT_EQ(zeros({2, 3, 4, 5}).strides(), (Strides{60, 20, 5, 1}));
  const Tensor x = zeros({2, 3, 4, 5}, {.layout = Layout::channels_last});
  EXPECT_EQ(x.strides(), (Strides{60, 1, 15, 3}));
  EXPECT_TRUE(x.is_channels_last());
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_TRUE(zeros({0, 3, 4, 5}, {.layout = Layout::channels_last}).is_contiguous());
}

TEST(TensorTest, MemoryIsAligned) {
  for (std::int64_t n = 1; n < 100'000; n = n * 3 + 1)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(empty({n}).raw_data()) % 64, 0u) << n;
}

TEST(TensorTest, EmptyLikeKeepsTheOrderOfDenseMemory) {
  const Tensor x = zeros(
      {2, 3, 4, 5}, {.dtype = DType::float64, .device = "cpu:1", .layout = Layout::channels_last});
  const Tensor y = empty_like(x);
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_EQ(y.dtype(), DType::float64);
  EXPECT_EQ(y.device(), Device("cpu:1"));
  EXPECT_EQ(empty_like(view::transpose(zeros({2, 3}), 0, 1)).strides(), (Strides{1, 3}));
  EXPECT_EQ(empty_like(view::slice(zeros({2, 6}), 1, 0, 6, 2)).strides(), (Strides{3, 1}));
  EXPECT_EQ(empty_like(view::expand(zeros({1, 3}), {2, 3})).strides(), (Strides{3, 1}));
  EXPECT_EQ(empty_like(x, DType::bool_).dtype(), DType::bool_);
}

TEST(TensorTest, FilledTensorsLikeAnotherHaveItsProperties) {
  const Tensor x = empty({2, 3, 1, 2}, {.dtype = DType::float64, .layout = Layout::channels_last});
  for (const auto& [y, value] :
       {std::pair(zeros_like(x), 0.0), {ones_like(x), 1}, {full_like(x, 2.5), 2.5}}) {
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.strides(), x.strides());
    EXPECT_EQ(y.dtype(), DType::float64);
    expect_close(y, std::vector<double>(12, value));
  }
  EXPECT_EQ(ones_like(zeros({2}, {.device = "cpu:1"})).device(), Device("cpu:1"));
  expect_close(ones_like(view::expand(zeros({1}), {3})), {1, 1, 1});
  expect_close(full_like(arange(2), 7), {7, 7});
  EXPECT_FALSE(zeros_like(zeros({1}, {.requires_grad = true})).requires_grad());
}

TEST(TensorTest, ANumberIsAShapeOfOneAxis) {
  EXPECT_EQ(zeros(3).shape(), (Shape{3}));
  EXPECT_EQ(full(std::int64_t{2}, 5).shape(), (Shape{2}));
  expect_throws<ShapeError>([] { zeros(-1); }, "empty: ");
  static_assert(!std::is_convertible_v<bool, Shape>);  // sum(x, true) must not sum over axis 1
}

TEST(TensorTest, RequiresGradMakesALeafOfFloats) {
  EXPECT_FALSE(zeros({1}).requires_grad());
  EXPECT_TRUE(zeros({1}, {.requires_grad = true}).requires_grad());
  EXPECT_FALSE(zeros({1}, {.requires_grad = true}).impl()->history);
  expect_throws<DTypeError>([] { zeros({1}, {.dtype = DType::int64, .requires_grad = true}); },
                            "empty: needs a floating dtype; got int64");
}

TEST(TensorTest, RemembersWhereItWasMade) {
  const Tensor x = zeros({1});
  const Where next = Where::current();
  EXPECT_EQ(x.made_at().line() + 1, next.line());
  EXPECT_STREQ(x.made_at().file_name(), next.file_name());
}

TEST(TensorTest, ItemConvertsTheOnlyElement) {
  EXPECT_EQ(scalar_tensor(2.5).item(), 2.5f);
  EXPECT_EQ(full({1, 1}, 3, {.dtype = DType::int64}).item<int>(), 3);
  EXPECT_EQ(view::select(tensor({1.f, 2.f, 3.f}), 0, 2).item<double>(), 3.0);
  constexpr auto kBig = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(scalar_tensor(kBig, {.dtype = DType::int64}).item<std::int64_t>(), kBig);
  expect_throws<ShapeError>([] { zeros({2}).item(); },
                            "item: the tensor must have exactly one element; got shape (2,)");
  expect_throws<ShapeError>([] { zeros({0}).item(); }, "got shape (0,)");
}

TEST(TensorTest, ItemAndToVectorRefuseWhatTheTypeCannotHold) {
  for (const double number : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e20}) {
    const Tensor x = full({1}, number);
    expect_throws<ValueError>([&] { x.item<std::int64_t>(); }, "number: ");
    expect_throws<ValueError>([&] { x.to_vector<std::int64_t>(); }, "number: ");
    expect_throws<ValueError>([&] { x.to_vector<int>(); }, "number: ");
    EXPECT_TRUE(x.item<bool>());
  }
  const Tensor x = full({2}, 300, {.dtype = DType::int64});
  expect_throws<ValueError>([&] { view::select(x, 0, 0).item<std::uint8_t>(); }, "got 300");
  expect_throws<ValueError>([&] { x.to_vector<std::uint8_t>(); }, "got 300");
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{300, 300}));
}

// The tables are those of torch.result_type: of two tensors with axes, and of one with and one
// without.
TEST(TensorTest, ATensorWithoutAxesWidensOnlyALowerClass) {
  const auto classes = [](DType of) { return is_floating(of) ? 2 : is_integral(of) ? 1 : 0; };
  for (const DType a : kAll)
    for (const DType b : kAll) {
      const Tensor rows = zeros({2}, {.dtype = a}), number = zeros({}, {.dtype = b});
      const DType expected = classes(b) > classes(a) ? b : a;
      EXPECT_EQ(promote(rows, number), expected) << a << b;
      EXPECT_EQ(promote(number, rows), expected) << a << b;
      EXPECT_EQ(promote(rows, zeros({1}, {.dtype = b})), promote(a, b)) << a << b;
      EXPECT_EQ(promote(zeros({}, {.dtype = a}), number), promote(a, b)) << a << b;
    }
  const Tensor half = zeros({2}, {.dtype = DType::float16}), wide = zeros({}),
               brain = zeros({1}, {.dtype = DType::bfloat16});
  EXPECT_EQ(promote({&half, &wide, &half}), DType::float16);
  EXPECT_EQ(promote({&half, &wide, &brain}), DType::float32);
  EXPECT_EQ(promote({&wide, &half, &wide}), DType::float16);
}

TEST(TensorTest, DataRefusesAnotherElementType) {
  const Tensor x = zeros({2});
  expect_throws<DTypeError>(
      [&] { x.data<double>(); },
      concat("data: the element type must be the tensor's; got float64 for a tensor of "
             "float32 made at tensor_test.cc:",
             x.made_at().line()));
}

TEST(TensorTest, ToVectorReadsAnyView) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Tensor x = random.view_of(random.tensor({3, 4, 2}, DType::int32));
    std::vector<double> expected;
    for (std::int64_t n = 0; n < x.numel(); ++n) {
      std::int64_t rest = n, at = 0;
      for (int axis = x.dims() - 1; axis >= 0; --axis) {
        at += rest % x.shape()[axis] * x.strides()[axis];
        rest /= x.shape()[axis];
      }
      expected.push_back(x.data<std::int32_t>()[at]);
    }
    ASSERT_EQ(x.to_vector<double>(), expected) << x.shape() << x.strides();
    ASSERT_EQ(random.strided(x).to_vector<double>(), expected);
  }
}

TEST(TensorTest, ToVectorConvertsEveryDType) {
  for (const DType dtype : kAll) {
    const Tensor x = full({2}, 1, {.dtype = dtype});
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1})) << dtype;
    EXPECT_EQ(x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1})) << dtype;
    EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{true, true})) << dtype;
    EXPECT_EQ(x.to_vector<bfloat16>()[1], 1.0f) << dtype;
  }
  EXPECT_EQ(tensor({1.5f, -2.75f}).to_vector<int>(), (std::vector<int>{1, -2}));
}

TEST(SetDataTest, MovesTheObjectUnderAllItsNames) {
  const Tensor x = zeros({2, 2}, {.requires_grad = true});
  const Tensor same = x;
  const Tensor arena = arange(0, 6, 1.0);
  const auto slice = view::as_strided(arena, {2, 2}, {1, 2}, 1);
  x.set_data(slice);
  EXPECT_TRUE(same.requires_grad());
  EXPECT_EQ(same.storage(), arena.storage());
  EXPECT_FALSE(same.is_contiguous());
  expect_same_bits(same, slice);
  EXPECT_EQ(x.version(), 1u);
}

TEST(SetDataTest, KeepsShapeAndDType) {
  const Tensor x = zeros({2});
  expect_throws<ShapeError>([&] { x.set_data(zeros({3})); },
                            "set_data: shapes must be equal; got (2,) and (3,)");
  expect_throws<DTypeError>([&] { x.set_data(zeros({2}, {.dtype = DType::float64})); },
                            "set_data: dtypes must be equal; got float32 and float64");
}

TEST(TensorTest, ErrorsOfMakingNameTheFault) {
  expect_throws<ShapeError>(
      [] {
        empty({2, -3});
      },
      "empty: extents must not be negative; got (2, -3)");
  expect_throws<ShapeError>([] { eye(-1); }, "extents must not be negative; got (-1, -1)");
  expect_throws<ShapeError>([] { empty({std::int64_t{1} << 61}, {.dtype = DType::float64}); },
                            "must fit in 63 bits");
  expect_throws<ShapeError>(
      [] {
        empty({2, 3}, {.layout = Layout::channels_last});
      },
      "empty: channels_last needs 4 axes (B, C, H, W); got (2, 3)");
  float value = 0;
  expect_throws<ShapeError>(
      [&] { from_memory(&value, {1}, {.layout = Layout::channels_last}, nullptr); },
      "from_memory: channels_last needs 4 axes (B, C, H, W); got (1,)");
}

TEST(TensorTest, AnUndefinedTensorThrowsWhateverItIsAskedFor) {
  const Tensor none;
  const auto expect_undefined = [](auto ask) {
    expect_throws<ValueError>(ask, "tensor: it must be defined; got an undefined one");
  };
  expect_undefined([&] { none.shape(); });
  expect_undefined([&] { none.dtype(); });
  expect_undefined([&] { none.device(); });
  expect_undefined([&] { none.size(0); });
  expect_undefined([&] { none.data<float>(); });
  expect_undefined([&] { none.raw_data(); });
  expect_undefined([&] { none.item(); });
  expect_undefined([&] { none.to_vector<float>(); });
  expect_undefined([&] { none.version(); });
  expect_undefined([&] { none.set_data(none); });
  expect_undefined([&] { none.requires_grad(); });
  expect_undefined([&] { view::reshape(none, {1}); });
  expect_undefined([&] { empty_like(none); });
}

TEST(TensorTest, ThreadsMayShareReading) {
  const Tensor x = arange(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([mine = x] {
      for (int i = 0; i < 100; ++i) {
        const Tensor row = view::reshape(mine, {10, 100});
        ASSERT_EQ(view::select(row, 0, 9).to_vector<int>().back(), 999);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(TensorTest, NumbersMustFitTheirDType) {
  const auto refused = [](auto make, const char* text) { expect_throws<ValueError>(make, text); };
  refused([] { full({2}, -1, {.dtype = DType::uint8}); }, "full: the number must fit");
  refused([] { full({2}, 1e10, {.dtype = DType::int32}); }, "got 1e+10 and int32");
  refused([] { full_like(full({2}, 1, {.dtype = DType::uint8}), 256); }, "full_like: ");
  refused([] { tensor({1, 300}, DType::uint8); }, "tensor: the number must fit");
  refused([] { tensor({9223372036854775808.0}, DType::int64); }, "and int64");
  EXPECT_EQ(full({1}, 2147483647.9, {.dtype = DType::int32}).item<int>(), 2147483647);
  EXPECT_EQ(full({1}, -0.5, {.dtype = DType::uint8}).item<int>(), 0);
  EXPECT_EQ(tensor({-9223372036854775808.0}, DType::int64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(full({1}, -3, {.dtype = DType::bool_}).item<bool>());
  EXPECT_TRUE(std::isinf(full({1}, 1e300).item<float>()));
}

}  // namespace
}  // namespace ringrad
