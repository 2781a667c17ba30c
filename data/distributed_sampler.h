// DistributedSampler: deals the indices of another sampler to the replicas of a model, like cards.
//
//     all ranks draw the same      7 2 9 4 0 8 3        and rank r keeps every n-th, from the r-th
//     n = 3, rank 0                7     4     3
//            rank 1                  2     0     7'     Tail::pad    7' and 2' start over from the
//            rank 2                    9     8     2'                front: shares are equal
//
// So batches of B on n ranks together hold exactly the samples of one batch of n B on one rank:
// with the same seed, n replicas and one replica see the same global batches.
//
// Each rank has its own share. Guarantee: in an epoch, all shares together hold every sample
//
//     Tail::keep    exactly once
//     Tail::drop    once, except N mod n samples, the last of the order, which are left out
//     Tail::pad     once, except -N mod n samples, the first of the order, which come twice
//
// This also holds if the epoch stops at any position and its remainder is dealt to another number
// of ranks; N is then the size of the remainder. The consumed samples are always the front of the
// order.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/data/sampler.h"

namespace ringrad {

/// What happens to the N mod num_replicas samples that remain after every rank has received equally
/// many.
enum class Tail {
  pad,   ///< the epoch's first are dealt again: shares are equal, fewer than num_replicas repeat
  drop,  ///< they are left out of this epoch: shares are equal, nothing repeats
  keep,  ///< the first ranks get one more, each sample once: use a Join, or no collectives
};

/// One rank's share of the work.
struct Shard {
  int num_replicas = 1;
  int rank = 0;
  Tail tail = Tail::pad;
};

class DistributedSampler final : public Sampler {
 public:
  /// A share of all samples, in the order of RandomSampler(num_samples, seed) or, without shuffle,
  /// of SequentialSampler.
  /// Throws: ValueError unless 1 <= num_replicas <= num_samples and 0 <= rank < num_replicas
  DistributedSampler(std::int64_t num_samples, Shard shard, bool shuffle = true,
                     std::uint64_t seed = 0, Where where = Where::current());

  /// A share of what `whole` draws. The current epoch of `whole` has no effect.
  /// Throws:  ValueError as above, with num_samples = whole->size(); later, unless `whole` draws
  ///          size() indices
  DistributedSampler(std::unique_ptr<const Sampler> whole, Shard shard,
                     Where where = Where::current());

  std::int64_t size() const override;
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;
  std::int64_t num_samples() const override { return whole_->size(); }
  std::vector<std::int64_t> draw_rest(const SamplerPosition& from) const override;
  std::vector<std::int64_t> earlier_draws(const SamplerPosition& from) const override;
  SamplerPosition after(const SamplerPosition& from, std::int64_t count) const override;

 private:
  std::int64_t share_of(std::int64_t count) const;
  std::vector<std::int64_t> deal(const std::vector<std::int64_t>& all, std::int64_t consumed) const;

  std::unique_ptr<const Sampler> whole_;
  Shard shard_;
  Where where_;  // for errors of `whole`
};

}  // namespace ringrad
