#include "ringrad/data/loader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/pinned_memory.h"
#include "ringrad/core/random/random.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/sampler.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/transform.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using Indices = std::vector<std::int64_t>;

// Images whose targets are their own indices.
TensorDataset numbered_images(std::int64_t count) {
  return TensorDataset({Random(1).tensor({count, 1, 6, 6}, DType::uint8), arange(count)});
}

const std::vector<Transform>& augmentation() {
  static const std::vector<Transform> transforms = {
      random_crop({6, 6}, 2), random_horizontal_flip(), normalize({0.5f}, {0.5f})};
  return transforms;
}

std::vector<Batch> all_batches(DataLoader& loader) {
  std::vector<Batch> batches;
  for (const Batch& batch : loader) batches.push_back(batch);
  return batches;
}

Indices all_targets(DataLoader& loader) {
  Indices targets;
  for (const Batch& batch : loader)
    for (const auto target : batch.target().to_vector<std::int64_t>()) targets.push_back(target);
  return targets;
}

// Fails to fetch the number `forbidden`.
class PickyDataset final : public Dataset {
 public:
  PickyDataset(std::int64_t size, std::int64_t forbidden) : size_(size), forbidden_(forbidden) {}
  std::int64_t size() const override { return size_; }
  Batch fetch(std::span<const std::int64_t> indices, Where where) const override {
    for (const std::int64_t i : indices)
      RINGRAD_CHECK(i != forbidden_, DataError, where, "fetch: must not be asked for ", forbidden_,
                    "; got it");
    return {{from_values(indices, {std::ssize(indices)})}};
  }

 private:
  std::int64_t size_, forbidden_;
};

class EmptyDataset final : public Dataset {
 public:
  std::int64_t size() const override { return 3; }
  Batch fetch(std::span<const std::int64_t>, Where) const override { return {}; }
};

TEST(DataLoaderTest, CutsTheSamplersOrderIntoBatches) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(10);
  DataLoader loader(set, sampler, {.batch_size = 4});
  EXPECT_EQ(loader.size(), 3);
  const auto batches = all_batches(loader);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0].target().to_vector<std::int64_t>(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(batches[2].target().to_vector<std::int64_t>(), (Indices{8, 9}));
  EXPECT_EQ(batches[2].size(), 2);
  EXPECT_EQ(batches[0].input().shape(), (Shape{4, 1, 6, 6}));
}

TEST(DataLoaderTest, CountsItsBatches) {
  const TensorDataset set = numbered_images(12);
  for (std::int64_t n = 0; n <= 12; ++n)
    for (const std::int64_t batch_size : {std::int64_t{1}, std::int64_t{4}, INT64_MAX})
      for (const bool drop_last : {false, true}) {
        SequentialSampler sampler(n);
        DataLoader loader(set, sampler, {.batch_size = batch_size, .drop_last = drop_last});
        EXPECT_EQ(loader.size(), n / batch_size + (n % batch_size > 0 && !drop_last));
        EXPECT_EQ(std::ssize(all_batches(loader)), loader.size());
      }
}

TEST(DataLoaderTest, BatchesDoNotDependOnWorkersOrPrefetch) {
  const TensorDataset set = numbered_images(53);
  const auto epochs_with = [&](int num_workers, int prefetch) {
    RandomSampler sampler(53, 2);
    DataLoader loader(set, sampler,
                      {.batch_size = 4,
                       .num_workers = num_workers,
                       .prefetch = prefetch,
                       .transforms = augmentation(),
                       .seed = 6});
    std::vector<Batch> batches;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const Batch& batch : loader) batches.push_back(batch);
    return batches;
  };
  const auto expected = epochs_with(0, 1);
  for (const int num_workers : {1, 2, 3, 8})
    for (const int prefetch : {1, 4}) {
      const auto actual = epochs_with(num_workers, prefetch);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) {
        expect_same_bits(actual[i].input(), expected[i].input());
        expect_same_bits(actual[i].target(), expected[i].target());
      }
    }
}

TEST(DataLoaderTest, EveryPassIsAnotherEpoch) {
  const TensorDataset set = numbered_images(30);
  RandomSampler sampler(30, 4);
  DataLoader loader(set, sampler, {.batch_size = 7});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(sampler.epoch(), epoch);
    EXPECT_EQ(all_targets(loader), RandomSampler(30, 4).draw(epoch));
  }
  loader.set_epoch(1);
  EXPECT_EQ(all_targets(loader), RandomSampler(30, 4).draw(1));
}

TEST(DataLoaderTest, RandomTransformsDifferBetweenPassesAndCanBeResumed) {
  const TensorDataset set = numbered_images(8);
  SequentialSampler sampler(8);
  DataLoader loader(set, sampler, {.batch_size = 8, .transforms = augmentation()});
  const auto first = all_batches(loader)[0].input().to_vector<float>();
  EXPECT_NE(all_batches(loader)[0].input().to_vector<float>(), first);
  loader.set_epoch(0);
  EXPECT_EQ(all_batches(loader)[0].input().to_vector<float>(), first);
}

// A global batch of 8 is one batch of 8, two of 4 or four of 2: the samples, and the results of the
// random transforms, are the same.
TEST(DataLoaderTest, RanksTogetherHoldTheBatchesOfOneRank) {
  const TensorDataset set = numbered_images(24);
  RandomSampler whole(24, 5);
  DataLoader one(set, whole, {.batch_size = 8, .transforms = augmentation()});
  const auto expected = all_batches(one);
  for (const int num_replicas : {2, 4})
    for (int rank = 0; rank < num_replicas; ++rank) {
      DistributedSampler share(24, {num_replicas, rank}, true, 5);
      DataLoader loader(set, share, {.batch_size = 8 / num_replicas, .transforms = augmentation()});
      const auto batches = all_batches(loader);
      ASSERT_EQ(batches.size(), expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) {
        const TensorDataset global(expected[i].tensors);
        Indices positions;
        for (std::int64_t k = rank; k < 8; k += num_replicas) positions.push_back(k);
        expect_same_bits(batches[i].input(), global.fetch(positions).input());
        expect_same_bits(batches[i].target(), global.fetch(positions).target());
      }
    }
}

TEST(DataLoaderTest, ALoopMayBeLeftEarlyAndBegunAgain) {
  const TensorDataset set = numbered_images(100);
  SequentialSampler sampler(100);
  DataLoader loader(set, sampler, {.batch_size = 2, .num_workers = 3});
  for (int round = 0; round < 20; ++round) {
    int seen = 0;
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.target().to_vector<std::int64_t>()[0], 2 * seen);
      if (++seen == round) break;
    }
  }
  EXPECT_EQ(std::ssize(all_targets(loader)), 100);
}

TEST(DataLoaderTest, TwoPassesMayGoOnSideBySide) {
  const TensorDataset set = numbered_images(20);
  SequentialSampler sampler(20);
  DataLoader loader(set, sampler, {.batch_size = 3, .num_workers = 2});
  auto second = loader.begin();
  for (const Batch& batch : loader) {
    ASSERT_NE(second, loader.end());
    expect_same_bits(batch.target(), second->target());
    ++second;
  }
  EXPECT_EQ(second, loader.end());
}

TEST(DataLoaderTest, RanksMayShareADataset) {
  const TensorDataset set = numbered_images(64);
  std::vector<Indices> seen(4);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.emplace_back([&, rank] {
        DistributedSampler sampler(64, {4, rank});
        DataLoader loader(set, sampler,
                          {.batch_size = 4, .num_workers = 2, .transforms = augmentation()});
        seen[static_cast<std::size_t>(rank)] = all_targets(loader);
      });
  }
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(seen[static_cast<std::size_t>(rank)], DistributedSampler(64, {4, rank}).draw(0));
}

TEST(DataLoaderTest, ThrowsInTheConsumerWhatAWorkerThrew) {
  const PickyDataset set(30, 17);
  for (const int num_workers : {0, 1, 3}) {
    SequentialSampler sampler(30);
    DataLoader loader(set, sampler, {.batch_size = 5, .num_workers = num_workers});
    int seen = 0;
    expect_throws<DataError>(
        [&] {
          for (const Batch& batch : loader) seen += batch.size() == 5;
        },
        "fetch: must not be asked for 17; got it");
    EXPECT_EQ(seen, 3);
  }
}

TEST(DataLoaderTest, ThrowsInTheConsumerWhatATransformThrew) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(10);
  for (const int num_workers : {0, 2}) {
    DataLoader loader(set, sampler,
                      {.num_workers = num_workers, .transforms = {random_crop({90, 90})}});
    expect_throws<ShapeError>([&] { loader.begin(); }, "random_crop: the window must fit");
  }
}

TEST(DataLoaderTest, ThrowsForASamplerOfALargerDataset) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(11);
  DataLoader loader(set, sampler, {.batch_size = 11});
  expect_throws<IndexError>([&] { loader.begin(); }, "indices must be in [0, 10); got 10");
}

TEST(DataLoaderTest, ThrowsForADatasetThatReturnsNothing) {
  const EmptyDataset set;
  SequentialSampler sampler(3);
  DataLoader loader(set, sampler, {});
  expect_throws<ValueError>([&] { loader.begin(); }, "must return a tensor; got none");
}

TEST(DataLoaderTest, PinsItsBatches) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no GPU";
  const TensorDataset set = numbered_images(10);
  for (const std::optional<Device> gpu : {std::optional<Device>(), std::optional<Device>("cuda")}) {
    SequentialSampler sampler(10);
    DataLoader loader(set, sampler, {.batch_size = 4, .num_workers = 1, .pin_for = gpu});
    std::int64_t next = 0;
    for (const Batch& batch : loader) {
      for (const Tensor& tensor : batch.tensors)
        EXPECT_EQ(is_pinned(tensor.raw_data()), gpu.has_value());
      for (const auto target : batch.target().to_vector<std::int64_t>()) EXPECT_EQ(target, next++);
    }
    EXPECT_EQ(next, 10);
  }
}

TEST(DataLoaderTest, ThrowsForOptionsOutOfRange) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(10);
  expect_throws<ValueError>([&] { DataLoader(set, sampler, {.batch_size = 0}); },
                            "DataLoader: batch_size must be at least 1; got 0");
  expect_throws<ValueError>([&] { DataLoader(set, sampler, {.num_workers = -1}); },
                            "num_workers must be in [0, 1024]; got -1");
  expect_throws<ValueError>([&] { DataLoader(set, sampler, {.num_workers = 1'000'000}); },
                            "num_workers must be in [0, 1024]; got 1000000");
  expect_throws<ValueError>([&] { DataLoader(set, sampler, {.prefetch = 0}); },
                            "prefetch must be in [1, 4096]; got 0");
  expect_throws<ValueError>([&] { DataLoader(set, sampler, {.prefetch = 100'000'000}); },
                            "prefetch must be in [1, 4096]; got 100000000");
  expect_throws<DeviceError>([&] { DataLoader(set, sampler, {.pin_for = Device()}); },
                             "pin_for must be a GPU; got cpu:0");
}

TEST(DataLoaderTest, ASamplerMustDrawAsManyAsItSays) {
  class Short : public Sampler {
   public:
    std::int64_t size() const override { return 10; }
    std::vector<std::int64_t> draw(std::int64_t) const override { return {0, 1, 2}; }
  };
  const TensorDataset set = numbered_images(10);
  Short sampler;
  DataLoader loader(set, sampler, {.batch_size = 4});
  testing::expect_throws<ValueError>([&] { loader.begin(); }, "draw size() indices; got 3 of 10");
}

// Draws from the thread's generator, as code of users does.
Tensor noise(const Tensor& x, const SampleKeys&, Where where) {
  return randn({x.shape()[0]}, {}, default_generator(), where);
}

TEST(DataLoaderTest, DefaultGeneratorsDrawTheSameWithAnyWorkers) {
  const TensorDataset set = numbered_images(24);
  const auto draws = [&](int num_workers, Shard shard, std::uint64_t seed, SamplerPosition from) {
    manual_seed(static_cast<std::uint64_t>(num_workers));
    DistributedSampler sampler(24, shard);
    sampler.set_position(from);
    DataLoader loader(
        set, sampler,
        {.batch_size = 4, .num_workers = num_workers, .transforms = {noise}, .seed = seed});
    std::vector<float> values;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const Batch& batch : loader) {
        const auto of_batch = batch.input().to_vector<float>();
        values.insert(values.end(), of_batch.begin(), of_batch.end());
      }
    EXPECT_EQ(default_generator().seed(), static_cast<std::uint64_t>(num_workers));
    EXPECT_EQ(default_generator().offset(), 0u) << "the consumer's generator is its own";
    return values;
  };
  const std::vector<float> expected = draws(0, {}, 5, {});
  for (const int num_workers : {1, 3}) EXPECT_EQ(draws(num_workers, {}, 5, {}), expected);
  std::vector<float> all = expected;
  for (const auto& other : {draws(0, {}, 6, {}), draws(2, {2, 0}, 7, {}), draws(2, {2, 1}, 7, {})})
    all.insert(all.end(), other.begin(), other.end());
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size()) << "numbers came twice";
  EXPECT_EQ(draws(2, {}, 5, {0, 8}), std::vector(expected.begin() + 8, expected.end()));
}

TEST(DataLoaderTest, AFailedBatchGivesTheGeneratorBack) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(10);
  DataLoader loader(set, sampler, {.transforms = {random_crop({90, 90})}});
  manual_seed(77);
  expect_throws<ShapeError>([&] { loader.begin(); }, "the window must fit");
  EXPECT_EQ(default_generator().seed(), 77u);
}

}  // namespace
}  // namespace ringrad
