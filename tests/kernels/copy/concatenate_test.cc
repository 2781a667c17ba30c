#include "ringrad/kernels/copy/concatenate.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

Tensor concatenate(std::initializer_list<Tensor> list, std::int64_t axis,
                   Where where = Where::current()) {
  return kernels::concatenate(std::span(list.begin(), list.size()), axis, where);
}

TEST(ConcatenateTest, EveryInputIsASliceOfTheResult) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    Shape shape = random.shape(3, 5);
    shape.push_back(5);
    const std::int64_t axis = random.integer(-shape.size(), shape.size());
    const int a = static_cast<int>(axis < 0 ? axis + shape.size() : axis);
    const DType dtype = random.chance(0.5) ? DType::float32 : DType::uint8;
    std::vector<Tensor> list;
    for (std::int64_t i = 0, count = random.integer(1, 5); i < count; ++i) {
      shape[a] = random.integer(0, 5);
      const Tensor x = random.tensor(shape, dtype);
      list.push_back(random.chance(0.5) && x.numel() > 0 ? random.strided(x) : x);
    }
    const Tensor y = kernels::concatenate(list, axis);
    std::int64_t start = 0;
    for (const Tensor& x : list) {
      expect_same_bits(view::slice(y, axis, start, start + x.shape()[a]), x);
      start += x.shape()[a];
    }
    EXPECT_EQ(y.shape()[a], start);
  }
}

TEST(ConcatenateTest, ChannelsLastStays) {
  const Tensor x = ones({2, 3, 4, 5}, {.layout = Layout::channels_last});
  const Tensor one_channel = ones({2, 1, 4, 5});
  EXPECT_TRUE(concatenate({x, x}, 1).is_channels_last());
  EXPECT_TRUE(concatenate({one_channel, x}, 1).is_channels_last());
  EXPECT_TRUE(concatenate({x, ones({2, 3, 4, 5})}, 0).is_contiguous());
}

TEST(ConcatenateTest, ThrowsForTensorsThatDoNotFit) {
  expect_throws<ValueError>([] { concatenate({}, 0); },
                            "concatenate: there must be a tensor; got an empty list");
  expect_throws<ShapeError>(
      [] {
        concatenate({ones({2, 3}), ones({2, 4})}, 0);
      },
      "concatenate: shapes must agree but for axis 0; got (2, 3) and (2, 4)");
  expect_throws<ShapeError>(
      [] {
        concatenate({ones({2}), ones({2, 1})}, 0);
      },
      "got (2,) and (2, 1)");
  expect_throws<ShapeError>([] { concatenate({ones({2})}, 1); }, "concatenate: axis must be in");
  expect_throws<DTypeError>(
      [] {
        concatenate({ones({2}), arange(2)}, 0);
      },
      "concatenate: dtypes must be equal; got float32 and int64");
  expect_throws<DeviceError>(
      [] {
        concatenate({ones({2}), ones({2}, {.device = {DeviceType::cpu, 1}})}, 0);
      },
      "concatenate");
}

}  // namespace
}  // namespace ringrad
