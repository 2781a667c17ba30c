// DistributedSampler: deals the indices of another sampler to the replicas of a model, like cards.
//
//     all ranks draw the same      7 2 9 4 0 8 3        and rank r keeps every n-th, from the r-th
//     n = 3, rank 0                7     4     3
//            rank 1                  2     0     7'     Tail::pad    7' and 2' begin again at the
//            rank 2                    9     8     2'                front: shares are equal
//
// Thus batches of B on each of n ranks hold together exactly the samples of one batch of n B on one
// rank: with the same seed, n replicas and one see the same global batches.
//
// Each rank owns its share. Guarantee: in an epoch all shares together hold every sample
//
//     Tail::keep    exactly once
//     Tail::drop    once, but for N mod n of them, the last of the order, which do not come
//     Tail::pad     once, but for -N mod n of them, the first of the order, which come twice
//
// and this also if the epoch is left off anywhere and the rest of it, which then counts as N, is dealt
// to another number of ranks: what is consumed is always the front of the order.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/error.h"
#include "data/sampler.h"

namespace ringrad {

/// What happens to N mod num_replicas samples that are left when every rank has as many.
enum class Tail {
  pad,   ///< the epoch's first are dealt again: shares are equal, fewer than num_replicas repeat
  drop,  ///< they are left out in this epoch: shares are equal, nothing repeats
  keep,  ///< the first ranks get one more: each sample once; for evaluation without collectives, training with a Join
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

  /// A share of what `whole` draws. Its own current epoch plays no role.
  /// Throws: ValueError as above, num_samples being whole->size()
  DistributedSampler(std::unique_ptr<const Sampler> whole, Shard shard,
                     Where where = Where::current());

  std::int64_t size() const override;
  std::vector<std::int64_t> draw(std::int64_t epoch) const override;
  std::int64_t num_samples() const override { return whole_->size(); }
  std::vector<std::int64_t> draw_rest(const SamplerPosition& from) const override;
  SamplerPosition after(const SamplerPosition& from, std::int64_t count) const override;

 private:
  std::int64_t share_of(std::int64_t count) const;

  std::unique_ptr<const Sampler> whole_;
  Shard shard_;
};

}  // namespace ringrad
