#include "ringrad/data/text/text_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ringrad/data/loader.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

Tensor tokens(std::int64_t count) {
  const Tensor result = empty({count}, {.dtype = DType::int64, .device = Device()});
  for (std::int64_t i = 0; i < count; ++i) result.data<std::int64_t>()[i] = 10 * i;
  return result;
}

using Row = std::vector<std::int64_t>;

TEST(TextDatasetTest, TargetsAreTheNextTokens) {
  const TextDataset data(tokens(9), 4, 3);
  EXPECT_EQ(data.size(), 2);
  const Batch batch = data.fetch(Row{1, 0});
  EXPECT_EQ(batch.input().shape(), Shape({2, 4}));
  EXPECT_EQ(batch.input().to_vector<std::int64_t>(), (Row{30, 40, 50, 60, 0, 10, 20, 30}));
  EXPECT_EQ(batch.target().to_vector<std::int64_t>(), (Row{40, 50, 60, 70, 10, 20, 30, 40}));
}

TEST(TextDatasetTest, AWindowAtTheEndNeedsItsLastTarget) {
  EXPECT_EQ(TextDataset(tokens(8), 4).size(), 1);
  EXPECT_EQ(TextDataset(tokens(9), 4).size(), 2);
  EXPECT_EQ(TextDataset(tokens(9), 4, 1).size(), 5);
  EXPECT_EQ(TextDataset(tokens(2), 1).size(), 1);
}

TEST(TextDatasetTest, ALoaderVisitsEveryWindow) {
  const TextDataset data(tokens(41), 4);
  RandomSampler sampler(data.size(), 3);
  DataLoader loader(data, sampler, {.batch_size = 4, .num_workers = 2});
  Row firsts;
  for (const Batch& batch : loader)
    for (std::int64_t i = 0; i < batch.size(); ++i)
      firsts.push_back(batch.input().to_vector<std::int64_t>()[static_cast<std::size_t>(4 * i)]);
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(firsts, (Row{0, 40, 80, 120, 160, 200, 240, 280, 320, 360}));
}

TEST(TextDatasetTest, RefusesWhatDoesNotFit) {
  expect_throws<ShapeError>([] { TextDataset(tokens(4), 4); }, "longer than the window of 4");
  expect_throws<ValueError>([] { TextDataset(tokens(4), 0); }, "window must be positive");
  expect_throws<ValueError>([] { TextDataset(tokens(4), 2, -1); }, "-1");
  expect_throws<DTypeError>([] { TextDataset(zeros({4}), 2); }, "int64; got float32");
  const TextDataset data(tokens(9), 4);
  expect_throws<IndexError>([&] { data.fetch(Row{2}); }, "[0, 2); got 2");
}

}  // namespace
}  // namespace ringrad
