#include "ringrad/data/tensor_dataset.h"

#include <gtest/gtest.h>

#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

std::vector<std::int64_t> random_indices(Random& random, std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(random.integer(0, size));
  return indices;
}

// The expected result of fetch: row by row, with views.
void expect_rows(const Tensor& fetched, const Tensor& source,
                 const std::vector<std::int64_t>& indices) {
  ASSERT_EQ(fetched.shape()[0], std::ssize(indices));
  EXPECT_TRUE(fetched.is_contiguous());
  for (std::size_t i = 0; i < indices.size(); ++i)
    expect_same_bits(view::select(fetched, 0, static_cast<std::int64_t>(i)),
                     view::select(source, 0, indices[i]));
}

TEST(TensorDatasetTest, FetchesTheRequestedRowsInTheirOrder) {
  const TensorDataset set({tensor({{1., 2.}, {3., 4.}, {5., 6.}}), arange(3)});
  EXPECT_EQ(set.size(), 3);
  const Batch batch = set.fetch(std::vector<std::int64_t>{2, 0, 2});
  EXPECT_EQ(batch.size(), 3);
  EXPECT_EQ(batch.tensors.size(), 2u);
  expect_close(batch.input(), tensor({{5., 6.}, {1., 2.}, {5., 6.}}));
  expect_close(batch.target(), {2, 0, 2});
}

TEST(TensorDatasetTest, FetchesRowsOfAnyDTypeAndStrides) {
  Random random(1);
  for (int round = 0; round < 20; ++round)
    for (int d = 0; d < kNumDTypes; ++d) {
      const Tensor dense = random.tensor(random.shape(), static_cast<DType>(d));
      if (dense.dims() == 0) continue;
      const auto indices = random_indices(random, dense.shape()[0], 7);
      expect_rows(TensorDataset({dense}).fetch(indices).input(), dense, indices);
      const Tensor strided = random.strided(dense);
      expect_rows(TensorDataset({strided}).fetch(indices).input(), dense, indices);
    }
}

TEST(TensorDatasetTest, FetchedRowsAreNewMemory) {
  const Tensor source = tensor({1., 2., 3.});
  const Batch batch = TensorDataset({source}).fetch(std::vector<std::int64_t>{0, 1, 2});
  *batch.input().data<float>() = 9;
  expect_close(source, {1, 2, 3});
}

TEST(TensorDatasetTest, KeepsTheDevice) {
  const TensorDataset set({zeros({4, 2}, {.device = "cpu:3"})});
  EXPECT_EQ(set.fetch(std::vector<std::int64_t>{1}).input().device(), Device("cpu:3"));
}

TEST(TensorDatasetTest, FetchesNothing) {
  const TensorDataset set({zeros({4, 2, 3}), zeros({4})});
  EXPECT_EQ(set.fetch({}).input().shape(), (Shape{0, 2, 3}));
  const TensorDataset empty_set({zeros({0, 2, 3})});
  EXPECT_EQ(empty_set.size(), 0);
  EXPECT_EQ(empty_set.fetch({}).input().shape(), (Shape{0, 2, 3}));
  const TensorDataset empty_rows({zeros({4, 0})});
  EXPECT_EQ(empty_rows.fetch(std::vector<std::int64_t>{3, 1}).input().shape(), (Shape{2, 0}));
}

TEST(TensorDatasetTest, ThrowsForAnIndexOutOfRange) {
  const TensorDataset set({zeros({4, 2})});
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 60})
    expect_throws<IndexError>(
        [&] {
          set.fetch(std::vector<std::int64_t>{0, index});
        },
        concat("fetch: indices must be in [0, 4); got ", index));
}

TEST(TensorDatasetTest, ThrowsForTensorsThatDoNotFit) {
  expect_throws<ValueError>([&] { TensorDataset({}); }, "at least one tensor must be given");
  expect_throws<ValueError>([&] { TensorDataset({Tensor()}); }, "must be defined");
  expect_throws<ShapeError>([&] { TensorDataset({zeros({})}); },
                            "the first axis must count the samples; got shape ()");
  expect_throws<ShapeError>(
      [&] {
        TensorDataset({zeros({4, 2}), zeros({3})});
      },
      "first extents must be equal; got (4, 2) and (3,)");
}

}  // namespace
}  // namespace ringrad
