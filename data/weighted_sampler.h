// WeightedRandomSampler: draws sample i with a probability proportional to weights[i], to balance
// rare and frequent classes.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/sampler.h"

namespace ringrad {

/// Whether a sample may be drawn again.
enum class Replacement { with, without };

class WeightedRandomSampler final : public Sampler {
 public:
  /// with replacement      each draw is independent:  P(i) = weights[i] / sum
  /// without replacement   each draw is among the samples not drawn yet, in the same proportion;
  ///                       samples of weight 0 never come
  ///
  /// Throws: ValueError unless weights are finite, none is negative, one is positive, and
  ///         num_draws >= 1; without replacement also if fewer than num_draws weights are positive
  /// Paper:  without replacement, Efraimidis and Spirakis 2006, "Weighted random sampling with a
  ///         reservoir", algorithm A
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_draws,
                        Replacement replacement = Replacement::with, std::uint64_t seed = 0,
                        Where where = Where::current());

  std::int64_t size() const override { return num_draws_; }
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;
  std::vector<std::int64_t> earlier_draws(const SamplerPosition& from) const override;

 private:
  std::vector<double> weights_;
  std::int64_t num_draws_;
  Replacement replacement_;
  std::uint64_t seed_;
};

/// One rank's share of the `num_draws` draws, which all ranks make alike. The ranks together make
/// as many draws as one rank would; without replacement, no sample goes to two ranks (except for
/// padding).
/// Throws:  ValueError as WeightedRandomSampler and DistributedSampler do
DistributedSampler distributed_weighted_sampler(std::vector<double> weights, std::int64_t num_draws,
                                                Shard shard,
                                                Replacement replacement = Replacement::with,
                                                std::uint64_t seed = 0,
                                                Where where = Where::current());

}  // namespace ringrad
