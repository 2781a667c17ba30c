// Samplers: which samples an epoch visits, and in what order.
//
//     SequentialSampler(n)             0, 1, ..., n - 1
//     RandomSampler(n, seed)           a permutation, another one every epoch
//     WeightedRandomSampler(weights)   draws in proportion to weights      (weighted_sampler.h)
//     DistributedSampler(n, shard)     one rank's share of any of these    (distributed_sampler.h)
//
// An epoch's indices are a pure function of the sampler's arguments and the epoch. So ranks agree
// without communication, and a run can resume anywhere: its position is two numbers that do not
// depend on ranks or batches.
//
//     order of epoch 3     7 2 9 4 0 8 3 1 6 5
//     seen by all ranks    7 2 9 4                    SamplerPosition{.epoch = 3, .consumed = 4}
//     what is left                 0 8 3 1 6 5        is dealt to as many ranks as there are now
//
// If the rest is not a multiple of the number of ranks, Tail says which samples repeat or are left
// out. Only with Tail::keep does each sample of the epoch come exactly once. Training then needs a
// Join (parallel/train/data_parallel/join.h), since a rank may have no sample in the last step.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// The progress of all ranks together.
struct SamplerPosition {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  ///< samples of the epoch's order, from its front

  bool operator==(const SamplerPosition&) const = default;
};

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// The number of indices in every epoch.
  virtual std::int64_t size() const = 0;

  /// The indices of one epoch, in order.
  virtual std::vector<std::int64_t> draw(std::int64_t epoch) const = 0;

  /// The length of an epoch's order; ranks may each have a share of it.
  virtual std::int64_t num_samples() const { return size(); }

  /// The rest of an epoch from a position on; draw(epoch) if nothing is consumed.
  /// REQUIRES: 0 <= from.consumed <= num_samples()
  virtual std::vector<std::int64_t> draw_rest(const SamplerPosition& from) const;

  /// For each index of draw_rest(from), how often the epoch's order holds it before; empty if no
  /// index repeats. A sampler that draws an index again overrides this, so that random transforms
  /// change the sample in another way each time.
  virtual std::vector<std::int64_t> earlier_draws(const SamplerPosition& from) const;

  /// The position of all ranks once each has taken `count` more indices, or all that its share has
  /// left.
  virtual SamplerPosition after(const SamplerPosition& from, std::int64_t count) const;

  /// The remaining indices of the current epoch.
  std::vector<std::int64_t> indices() const { return draw_rest(position_); }

  const SamplerPosition& position() const { return position_; }
  /// Throws ValueError unless epoch >= 0 and 0 <= consumed <= num_samples().
  void set_position(const SamplerPosition& position, Where where = Where::current());

  std::int64_t epoch() const { return position_.epoch; }
  /// Moves to the start of an epoch. Throws ValueError for a negative epoch.
  void set_epoch(std::int64_t epoch, Where where = Where::current());

 private:
  SamplerPosition position_;
};

/// 0, 1, ..., num_samples - 1, the order for a test set.
class SequentialSampler final : public Sampler {
 public:
  /// Throws ValueError for a negative number.
  explicit SequentialSampler(std::int64_t num_samples, Where where = Where::current());

  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;

 private:
  std::int64_t num_samples_;
};

/// Every sample once; all orders are equally likely.
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
