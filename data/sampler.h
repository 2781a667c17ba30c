// Samplers: which samples an epoch visits, and in what order.
//
//     SequentialSampler(n)             0, 1, ..., n - 1
//     RandomSampler(n, seed)           a permutation, another one every epoch
//     WeightedRandomSampler(weights)   draws in proportion to weights      (weighted_sampler.h)
//     DistributedSampler(n, shard)     one rank's share of any of these    (distributed_sampler.h)
//
// An epoch's indices are a pure function of the sampler's arguments and the epoch, so that a run
// can be resumed at any epoch, and ranks that never spoke to each other agree.

#pragma once

#include <cstdint>
#include <vector>

#include "core/error.h"

namespace ringrad {

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// The number of indices of every epoch.
  virtual std::int64_t size() const = 0;

  /// The indices of one epoch in their order.
  virtual std::vector<std::int64_t> draw(std::int64_t epoch) const = 0;

  /// The indices of the current epoch.
  std::vector<std::int64_t> indices() const { return draw(epoch_); }

  std::int64_t epoch() const { return epoch_; }
  /// Throws ValueError for a negative epoch.
  void set_epoch(std::int64_t epoch, Where where = Where::current());

 private:
  std::int64_t epoch_ = 0;
};

/// 0, 1, ..., num_samples - 1, as a test set is visited.
class SequentialSampler final : public Sampler {
 public:
  /// Throws ValueError for a negative number.
  explicit SequentialSampler(std::int64_t num_samples, Where where = Where::current());

  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;

 private:
  std::int64_t num_samples_;
};

/// Every sample once, each order equally likely.
class RandomSampler final : public Sampler {
 public:
  /// Throws ValueError for a negative number.
  explicit RandomSampler(std::int64_t num_samples, std::uint64_t seed = 0,
                         Where where = Where::current());

  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;

 private:
  std::int64_t num_samples_;
  std::uint64_t seed_;
};

}  // namespace ringrad
