#include "ringrad/data/iterable_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/sampler.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/transform.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using Numbers = std::vector<std::int64_t>;

// Images in a row, whose targets are 1000 times the epoch plus their numbers.
class Reel final : public IterableDataset {
 public:
  /// Reading the image `forbidden` fails.
  explicit Reel(std::int64_t count, std::int64_t forbidden = -1)
      : images_(Random(1).tensor({count, 1, 6, 6}, DType::uint8)), forbidden_(forbidden) {}

  std::unique_ptr<SampleStream> open(std::int64_t epoch, Where) const override {
    return std::make_unique<Stream>(*this, epoch);
  }

  TensorDataset in_memory() const { return TensorDataset({images_, arange(images_.shape()[0])}); }

 private:
  struct Stream final : SampleStream {
    Stream(const Reel& from, std::int64_t of_epoch) : reel(from), epoch(of_epoch) {}

    std::optional<Sample> next(Where where) override {
      EXPECT_FALSE(is_used.exchange(true)) << "one thread at a time reads";
      is_used = false;
      if (at == reel.images_.shape()[0]) return std::nullopt;
      RINGRAD_CHECK(at != reel.forbidden_, DataError, where, "next: must not be asked for ", at,
                    "; got it");
      const Tensor target = full({}, 1000 * epoch + at, {.dtype = DType::int64});
      return Sample{view::select(reel.images_, 0, at++), target};
    }

    const Reel& reel;
    const std::int64_t epoch;
    std::int64_t at = 0;
    std::atomic<bool> is_used = false;
  };

  const Tensor images_;
  const std::int64_t forbidden_;
};

const std::vector<Transform>& augmentation() {
  static const std::vector<Transform> transforms = {
      random_crop({6, 6}, 2), random_horizontal_flip(), normalize({0.5f}, {0.5f})};
  return transforms;
}

std::vector<Batch> all_batches(auto& loader) {
  std::vector<Batch> batches;
  for (const Batch& batch : loader) batches.push_back(batch);
  return batches;
}

Numbers all_targets(IterableLoader& loader) {
  Numbers targets;
  for (const Batch& batch : loader)
    for (const auto target : batch.target().to_vector<std::int64_t>()) targets.push_back(target);
  return targets;
}

Numbers targets_of(std::int64_t count, Shard shard) {
  const Reel reel(count);
  IterableLoader loader(reel, shard, {.batch_size = 2});
  return all_targets(loader);
}

TEST(IterableLoaderTest, GivesTheBatchesOfADataSetInMemory) {
  const Reel reel(23);
  const TensorDataset memory = reel.in_memory();
  for (const bool drop_last : {false, true})
    for (const int num_workers : {0, 1, 4}) {
      SequentialSampler sampler(23);
      DataLoader expected(
          memory, sampler,
          {.batch_size = 4, .drop_last = drop_last, .transforms = augmentation(), .seed = 3});
      IterableLoader loader(reel, {},
                            {.batch_size = 4,
                             .drop_last = drop_last,
                             .num_workers = num_workers,
                             .transforms = augmentation(),
                             .seed = 3});
      const auto want = all_batches(expected), got = all_batches(loader);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        expect_same_bits(got[i].input(), want[i].input());
        expect_same_bits(got[i].target(), want[i].target());
      }
    }
}

TEST(IterableLoaderTest, RanksShareTheSamples) {
  for (const auto& [tail, want] :
       {std::pair{Tail::keep, std::vector<Numbers>{{0, 3, 6}, {1, 4}, {2, 5}}},
        std::pair{Tail::drop, std::vector<Numbers>{{0, 3}, {1, 4}, {2, 5}}},
        std::pair{Tail::pad, std::vector<Numbers>{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}}}})
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(targets_of(7, {3, rank, tail}), want[static_cast<std::size_t>(rank)]);
  for (const Tail tail : {Tail::keep, Tail::drop, Tail::pad})
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(targets_of(6, {3, rank, tail}), (Numbers{rank, rank + 3}));
  EXPECT_EQ(targets_of(0, {3, 1}), Numbers{});
  expect_throws<ValueError>(
      [] {
        targets_of(1, {3, 2});
      },
      "an epoch must have as many samples as replicas; got 1 and 3");
}

// As DataLoader's: random transforms included.
TEST(IterableLoaderTest, RanksTogetherHoldTheBatchesOfOneRank) {
  const Reel reel(24);
  IterableLoader one(reel, {}, {.batch_size = 8, .transforms = augmentation()});
  const auto expected = all_batches(one);
  for (int rank = 0; rank < 4; ++rank) {
    IterableLoader loader(reel, {4, rank}, {.batch_size = 2, .transforms = augmentation()});
    const auto batches = all_batches(loader);
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Batch share = TensorDataset(expected[i].tensors).fetch(Numbers{rank, rank + 4});
      expect_same_bits(batches[i].input(), share.input());
      expect_same_bits(batches[i].target(), share.target());
    }
  }
}

TEST(IterableLoaderTest, EveryPassIsAnEpochAndMayBeLeftAndResumed) {
  const Reel reel(10);
  IterableLoader loader(reel, {2, 1}, {.batch_size = 2, .num_workers = 2});
  EXPECT_EQ(all_targets(loader), (Numbers{1, 3, 5, 7, 9}));
  SamplerPosition saved;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.target().to_vector<std::int64_t>(), (Numbers{1001, 1003}));
    saved = loader.position();
    break;
  }
  EXPECT_EQ(saved, (SamplerPosition{1, 4}));
  IterableLoader resumed(reel, {3, 0, Tail::keep}, {.batch_size = 5});
  resumed.set_position(saved);
  EXPECT_EQ(all_targets(resumed), (Numbers{1004, 1007}));
  EXPECT_EQ(resumed.position(), (SamplerPosition{2, 0}));
  EXPECT_EQ(all_targets(resumed), (Numbers{2000, 2003, 2006, 2009}));
  for (const std::int64_t consumed : {std::int64_t{10}, std::int64_t{12}, INT64_MAX}) {
    resumed.set_position({0, consumed});
    EXPECT_EQ(all_targets(resumed), Numbers{});
  }
}

TEST(IterableLoaderTest, PreparesEachSampleOnTheThreads) {
  const Reel reel(5);
  IterableLoader loader(reel, {}, {.batch_size = INT64_MAX, .num_workers = 3},
                        [](Sample sample, Where where) {
                          return Sample{view::reshape(sample[0], {36}, where), sample[1]};
                        });
  const auto batches = all_batches(loader);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].input().shape(), (Shape{5, 36}));
  EXPECT_EQ(batches[0].target().shape(), Shape{5});
}

TEST(IterableLoaderTest, ThrowsInTheConsumerWhatReadingOrPreparingThrew) {
  const Reel broken(30, 17), whole(30);
  for (const int num_workers : {0, 1, 3}) {
    const auto seen_until = [&](const Reel& reel, const Prepare& prepare, const char* text) {
      IterableLoader loader(reel, {}, {.batch_size = 5, .num_workers = num_workers}, prepare);
      int seen = 0;
      expect_throws<DataError>(
          [&] {
            for (const Batch& batch : loader) seen += batch.size() == 5;
          },
          text);
      EXPECT_EQ(seen, 3);
    };
    seen_until(broken, {}, "next: must not be asked for 17; got it");
    const auto refuse = [](Sample sample, Where where) {
      RINGRAD_CHECK(sample[1].item<std::int64_t>() != 16, DataError, where, "refused");
      return sample;
    };
    seen_until(whole, refuse, "refused");
  }
}

TEST(IterableLoaderTest, ThrowsForSamplesThatDoNotStack) {
  const Reel reel(4);
  const auto first_batch = [&](const auto& prepare) {
    return [&reel, prepare] { IterableLoader(reel, {}, {.batch_size = 4}, prepare).begin(); };
  };
  expect_throws<ValueError>(first_batch([](Sample, Where) { return Sample{}; }),
                            "there must be a sample with a tensor; got 4");
  const auto lose_third_target = [](Sample sample, Where) {
    if (sample[1].item<int>() == 2) sample.pop_back();
    return sample;
  };
  expect_throws<ValueError>(first_batch(lose_third_target),
                            "samples must have equally many tensors; got 2 and 1");
  const auto narrow = [](Sample sample, Where) {
    return Sample{view::slice(sample[0], 2, sample[1].item<int>())};
  };
  expect_throws<ShapeError>(
      first_batch(narrow),
      "the samples of a batch must have equal shapes; got (1, 6, 6) and (1, 6, 5)");
}

TEST(IterableLoaderTest, ThrowsForOptionsOutOfRange) {
  const Reel reel(4);
  const auto refused = [&](Shard shard, LoaderOptions options, const char* text) {
    expect_throws<ValueError>([&] { IterableLoader(reel, shard, options); }, text);
  };
  refused({2, 2}, {}, "rank must be in [0, num_replicas); got 2 and 2");
  refused({}, {.batch_size = 0}, "batch_size must be at least 1; got 0");
  refused({}, {.num_workers = -1}, "num_workers must be in [0, 1024]; got -1");
  refused({}, {.prefetch = 0}, "prefetch must be in [1, 4096]; got 0");
  IterableLoader loader(reel, {}, {});
  expect_throws<ValueError>([&] { loader.set_epoch(-1); }, "must not be negative; got -1 and 0");
}

// A stream of ten numbers that it draws from the thread's generator.
struct Drawn final : IterableDataset {
  struct Stream final : SampleStream {
    std::optional<Sample> next(Where) override {
      if (left-- == 0) return std::nullopt;
      return Sample{rand({})};
    }
    int left = 10;
  };
  std::unique_ptr<SampleStream> open(std::int64_t, Where) const override {
    return std::make_unique<Stream>();
  }
};

TEST(IterableLoaderTest, DefaultGeneratorsDrawTheSameWithAnyWorkersAndRanks) {
  const Drawn drawn;
  const auto noisy = [](Sample sample, Where) {
    sample.push_back(rand({}));
    return sample;
  };
  const auto draws = [&](int num_workers, Shard shard, const SamplerPosition& from, int tensor) {
    IterableLoader loader(drawn, shard, {.batch_size = 2, .num_workers = num_workers, .seed = 3},
                          noisy);
    loader.set_position(from);
    std::vector<float> values;
    for (const Batch& batch : loader)
      for (const float value : batch.tensors[static_cast<std::size_t>(tensor)].to_vector<float>())
        values.push_back(value);
    return values;
  };
  const auto samples = draws(0, {}, {}, 0), noise = draws(0, {}, {}, 1);
  std::set<float> distinct(samples.begin(), samples.end());
  distinct.insert(noise.begin(), noise.end());
  EXPECT_EQ(distinct.size(), 20u);
  EXPECT_EQ(draws(3, {}, {}, 0), samples);
  EXPECT_EQ(draws(3, {}, {}, 1), noise);
  EXPECT_EQ(draws(2, {}, {0, 4}, 0), std::vector(samples.begin() + 4, samples.end()));
  EXPECT_EQ(draws(2, {}, {0, 4}, 1), std::vector(noise.begin() + 4, noise.end()));
  EXPECT_EQ(draws(2, {3, 1}, {}, 0), (std::vector{samples[1], samples[4], samples[7], samples[0]}));
}

}  // namespace
}  // namespace ringrad
