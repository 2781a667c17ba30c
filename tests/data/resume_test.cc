// Passes that stop in the middle of an epoch and resume with other ranks and other batches.
//
// The model: a run is a list of legs. In each leg n ranks take k batches of B each, starting at the
// position where the previous leg ended; in the last leg they take all that remain. The samples
// that all ranks of all legs have seen are compared with the epoch's order, which no single rank
// knows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/random_stream.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/transform.h"
#include "ringrad/data/weighted_sampler.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using Indices = std::vector<std::int64_t>;

constexpr std::uint64_t kSeed = 7;

// Sample i is an image of noise, its target the number i.
TensorDataset numbered_images(std::int64_t n) {
  const DefaultDeviceGuard guard{Device()};
  Generator generator(3);
  return TensorDataset({rand({n, 1, 6, 6}, {}, generator), arange(n)});
}

std::vector<Transform> augmentation() { return {random_crop({6, 6}, 2), random_horizontal_flip()}; }

// The samples of up to `num_batches` batches of one rank's loader, and the position at which it
// ends.
struct Leg {
  Indices seen;
  SamplerPosition end;
};

Leg run(Sampler& sampler, const SamplerPosition& from, std::int64_t batch_size,
        std::int64_t num_batches, const Dataset& set) {
  DataLoader loader(set, sampler, {.batch_size = batch_size});
  loader.set_position(from);
  Leg leg{{}, from};
  for (const Batch& batch : loader) {
    if (num_batches-- == 0) break;
    for (const auto i : batch.target().to_vector<std::int64_t>()) leg.seen.push_back(i);
    leg.end = loader.position();
  }
  return leg;
}

std::map<std::int64_t, int> count(const Indices& indices) {
  std::map<std::int64_t, int> counts;
  for (const std::int64_t i : indices) ++counts[i];
  return counts;
}

// `make(n, rank)` is the sampler of rank `rank` of n; `order` lists the epoch's samples.
template <class Make>
void expect_whole_epoch(Make make, const Indices& order, std::int64_t epoch, Tail tail,
                        const Dataset& set, Random& random) {
  const auto size = std::ssize(order);
  SamplerPosition position{epoch, 0};
  Indices seen;
  for (int legs_left = static_cast<int>(random.integer(0, 4)); legs_left >= 0; --legs_left) {
    const int n = static_cast<int>(random.integer(1, std::min<std::int64_t>(64, size) + 1));
    const std::int64_t batch_size = random.integer(1, 6);
    const std::int64_t left = (size - position.consumed) / (n * batch_size);
    const std::int64_t num_batches = legs_left == 0 ? -1 : random.integer(0, left + 1);
    SamplerPosition end = position;
    for (int rank = 0; rank < n; ++rank) {
      const auto sampler = make(n, rank);
      const Leg leg = run(*sampler, position, batch_size, num_batches, set);
      seen.insert(seen.end(), leg.seen.begin(), leg.seen.end());
      if (rank == 0) end = leg.end;
      if (legs_left > 0) {
        EXPECT_EQ(leg.end, end) << "ranks must agree on where they are";
      }
    }
    const std::int64_t rest = (size - position.consumed) % n;
    if (legs_left > 0) {
      EXPECT_EQ(end.consumed, position.consumed + num_batches * n * batch_size);
      position = end;
      continue;
    }
    Indices expected = order;
    if (tail == Tail::drop) expected.resize(static_cast<std::size_t>(size - rest));
    if (tail == Tail::pad && rest > 0)
      expected.insert(expected.end(), order.begin(), order.begin() + (n - rest));
    EXPECT_EQ(count(seen), count(expected)) << size << " samples, the last leg on " << n;
  }
}

TEST(ResumeTest, LegsOnAnyNumberOfRanksHoldTheEpochTogether) {
  Random random(1);
  const TensorDataset set = numbered_images(200);
  for (int round = 0; round < 150; ++round) {
    const std::int64_t size = random.integer(1, 201), epoch = random.integer(0, 3);
    for (const Tail tail : {Tail::pad, Tail::drop, Tail::keep}) {
      const auto make = [&](int n, int rank) {
        return std::make_unique<DistributedSampler>(size, Shard{n, rank, tail}, true, kSeed);
      };
      expect_whole_epoch(make, RandomSampler(size, kSeed).draw(epoch), epoch, tail, set, random);
    }
  }
}

TEST(ResumeTest, LegsHoldAllWeightedDrawsTogether) {
  Random random(2);
  const TensorDataset set = numbered_images(60);
  std::vector<double> weights;
  for (int i = 0; i < 60; ++i) weights.push_back(1 + i % 9);
  for (int round = 0; round < 60; ++round)
    for (const auto replacement : {Replacement::with, Replacement::without}) {
      const std::int64_t draws = random.integer(1, 61), epoch = random.integer(0, 3);
      const WeightedRandomSampler whole(weights, draws, replacement, kSeed);
      const auto make = [&](int n, int rank) {
        return std::make_unique<DistributedSampler>(distributed_weighted_sampler(
            weights, draws, {n, rank, Tail::keep}, replacement, kSeed));
      };
      expect_whole_epoch(make, whole.draw(epoch), epoch, Tail::keep, set, random);
    }
}

// The rest of a pass, bit by bit: the order of samples, and the results of random transforms.
TEST(ResumeTest, APassGoesOnAsIfItHadNotBeenLeft) {
  const TensorDataset set = numbered_images(61);
  for (const Tail tail : {Tail::pad, Tail::drop, Tail::keep})
    for (const int num_workers : {0, 2})
      for (int rank = 0; rank < 3; ++rank) {
        const auto batches = [&](const SamplerPosition& from) {
          DistributedSampler sampler(61, {3, rank, tail}, true, kSeed);
          DataLoader loader(set, sampler,
                            {.batch_size = 4,
                             .num_workers = num_workers,
                             .transforms = augmentation(),
                             .seed = 5});
          loader.set_position(from);
          std::vector<Batch> result;
          for (int pass = 0; pass < 2; ++pass)  // the next epoch too
            for (const Batch& batch : loader) result.push_back(batch);
          return result;
        };
        const auto whole = batches({2, 0});
        for (std::int64_t k = 0; k <= 5; ++k) {
          const auto rest = batches({2, k * 12});
          ASSERT_EQ(rest.size() + static_cast<std::size_t>(k), whole.size());
          for (std::size_t i = 0; i < rest.size(); ++i) {
            const Batch& expected = whole[i + static_cast<std::size_t>(k)];
            expect_same_bits(rest[i].input(), expected.input());
            expect_same_bits(rest[i].target(), expected.target());
          }
        }
      }
}

// With other batches and other ranks, the transforms make the same image of a sample.
TEST(ResumeTest, ASampleIsAugmentedAlikeOnWhateverRankItComes) {
  const TensorDataset set = numbered_images(40);
  const auto images = [&](int num_replicas, std::int64_t batch_size, const SamplerPosition& from) {
    std::map<std::int64_t, std::vector<float>> result;
    for (int rank = 0; rank < num_replicas; ++rank) {
      DistributedSampler sampler(40, {num_replicas, rank, Tail::keep}, true, kSeed);
      DataLoader loader(set, sampler, {.batch_size = batch_size, .transforms = augmentation()});
      loader.set_position(from);
      for (const Batch& batch : loader) {
        const auto pixels = batch.input().to_vector<float>();
        const auto targets = batch.target().to_vector<std::int64_t>();
        for (std::size_t i = 0; i < targets.size(); ++i)
          std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(36 * i), 36,
                      std::back_inserter(result[targets[i]]));
      }
    }
    return result;
  };
  const auto expected = images(1, 40, {3, 0});
  EXPECT_EQ(expected.size(), 40u);
  EXPECT_NE(images(1, 40, {4, 0}), expected);
  for (const int num_replicas : {1, 2, 3, 7})
    for (const auto& [sample, image] : images(num_replicas, 3, {3, 13}))
      EXPECT_EQ(image, expected.at(sample));
}

TEST(ResumeTest, TheEndOfAnEpochHasNoBatchesAndLeadsToTheNext) {
  const TensorDataset set = numbered_images(10);
  RandomSampler sampler(10, kSeed);
  DataLoader loader(set, sampler, {.batch_size = 4});
  EXPECT_EQ(loader.position(), (SamplerPosition{0, 0}));
  std::vector<SamplerPosition> positions;
  for ([[maybe_unused]] const Batch& batch : loader) positions.push_back(loader.position());
  EXPECT_EQ(positions, (std::vector<SamplerPosition>{{0, 4}, {0, 8}, {0, 10}}));
  EXPECT_EQ(loader.position(), (SamplerPosition{1, 0}));
  loader.set_position({0, 10});
  EXPECT_EQ(loader.begin(), loader.end());
  EXPECT_EQ(loader.position(), (SamplerPosition{1, 0}));
}

TEST(ResumeTest, APassThatIsLeftEarlyStaysWhereItWas) {
  const TensorDataset set = numbered_images(10);
  SequentialSampler sampler(10);
  DataLoader loader(set, sampler, {.batch_size = 4, .num_workers = 2});
  for ([[maybe_unused]] const Batch& batch : loader) break;
  EXPECT_EQ(loader.position(), (SamplerPosition{0, 4}));
  loader.set_position(loader.position());
  EXPECT_EQ(loader.begin()->target().to_vector<std::int64_t>(), (Indices{4, 5, 6, 7}));
}

// Fails to fetch its first samples while `fails` is set.
struct Failing final : Dataset {
  bool fails = false;
  std::int64_t size() const override { return 10; }
  Batch fetch(std::span<const std::int64_t> indices, Where where) const override {
    RINGRAD_CHECK(!fails || indices[0] > 3, DataError, where, "no disk");
    return {{full({std::ssize(indices)}, indices[0])}};
  }
};

TEST(ResumeTest, APassThatFailsAtItsFirstBatchStaysWhereItBegan) {
  Failing set;
  for (const int num_workers : {0, 2}) {
    SequentialSampler sampler(10);
    DataLoader loader(set, sampler, {.batch_size = 4, .num_workers = num_workers});
    for ([[maybe_unused]] const Batch& batch : loader) continue;
    set.fails = true;
    expect_throws<DataError>([&] { loader.begin(); }, "no disk");
    EXPECT_EQ(loader.position(), (SamplerPosition{1, 0}));
    set.fails = false;
  }
}

TEST(ResumeTest, ThrowsForAPositionThatNoEpochHas) {
  DistributedSampler sampler(10, {4, 1});
  for (const std::int64_t consumed : {std::int64_t{-1}, std::int64_t{11}, INT64_MAX})
    expect_throws<ValueError>(
        [&] {
          sampler.set_position({0, consumed});
        },
        concat("consumed must be in [0, 10], the samples of an epoch; got ", consumed));
  expect_throws<ValueError>(
      [&] {
        sampler.set_position({-1, 0});
      },
      "epoch must not be negative; got -1");
  EXPECT_EQ(sampler.position(), (SamplerPosition{0, 0}));
}

// Of a sample that comes again, the transforms make another image each time, on whatever rank.
TEST(ResumeTest, EachDrawOfASampleIsAugmentedInItsOwnWay) {
  using Draws = std::multiset<std::pair<std::int64_t, std::int64_t>>;  // (index, random number)
  const TensorDataset set = numbered_images(5);
  const auto random_number = [](const Tensor&, const SampleKeys& keys, Where) {
    Indices numbers;
    for (std::size_t i = 0; i < keys.indices.size(); ++i)
      numbers.push_back(static_cast<std::int64_t>(keys.generator(i).below(1u << 30)));
    return from_values(std::span<const std::int64_t>(numbers), {std::ssize(numbers)});
  };
  const auto draws = [&](int num_replicas, std::int64_t batch_size, const SamplerPosition& from) {
    Draws result;
    for (int rank = 0; rank < num_replicas; ++rank) {
      DistributedSampler sampler = distributed_weighted_sampler(
          {1, 2, 3, 4, 5}, 40, {num_replicas, rank, Tail::keep}, Replacement::with, kSeed);
      DataLoader loader(set, sampler, {.batch_size = batch_size, .transforms = {random_number}});
      loader.set_position(from);
      for (const Batch& batch : loader) {
        const auto numbers = batch.input().to_vector<std::int64_t>();
        const auto targets = batch.target().to_vector<std::int64_t>();
        for (std::size_t i = 0; i < targets.size(); ++i) result.emplace(targets[i], numbers[i]);
      }
    }
    return result;
  };
  const Draws expected = draws(1, 8, {3, 0});
  EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), 40u);
  for (std::int64_t index = 0; index < 5; ++index) {  // the first draw is keyed as in any sampler
    const Indices own{index};
    const auto first = random_number({}, {own, 3, mix_seed(0, 0, 0)}, Where::current());
    EXPECT_TRUE(expected.contains({index, first.item<std::int64_t>()}));
  }
  for (const int num_replicas : {1, 2, 3}) {
    EXPECT_EQ(draws(num_replicas, 3, {3, 0}), expected);
    const Draws rest = draws(num_replicas, 3, {3, 13});
    EXPECT_EQ(rest.size(), 27u);
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), rest.begin(), rest.end()));
  }
}

}  // namespace
}  // namespace ringrad
