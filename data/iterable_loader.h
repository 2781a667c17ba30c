// IterableLoader: passes over an IterableDataset, in batches.
//
//     IterableLoader loader(records, {.num_replicas = n, .rank = rank, .tail = Tail::drop},
//                           {.batch_size = 128, .num_workers = 4}, decode);
//     for (const Batch& batch : loader) step(batch.input(), batch.target());
//
// Ranks share an epoch as DistributedSampler shares it: rank r of n keeps samples r, r + n, ... of
// the stream. So no sample is seen twice, unless Tail::pad repeats the epoch's first at its end.
// Together, batches of B on n ranks hold the samples of one batch of n B on one rank.
//
//     thread 1    read samples of batch 0 | prepare, collate, transform
//     thread 2        waits for its turn    read samples of batch 1 | prepare, collate, transform
//
// One thread at a time reads, in the order of the batches; the rest runs in parallel.
// Batches do not depend on num_workers or timing. Passes, epochs, positions and exceptions are as
// in DataLoader.

#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>

#include "ringrad/core/base/error.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/iterable_dataset.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/loader_pass.h"

namespace ringrad {

/// Turns a sample of the stream into the sample that a batch holds, such as a file's bytes into
/// pixels. Several threads may call it at once.
using Prepare = std::function<Sample(Sample sample, Where where)>;

class IterableLoader {
 public:
  /// Keeps a reference to the dataset, which must outlive the loader. Without `prepare` a batch
  /// holds the samples themselves; the keys of transforms are the samples' numbers in the epoch.
  /// Throws:  ValueError unless 0 <= shard.rank < shard.num_replicas, and as DataLoader
  IterableLoader(const IterableDataset& dataset, Shard shard, LoaderOptions options,
                 Prepare prepare = {}, Where where = Where::current());
  IterableLoader(const IterableDataset&& dataset, Shard shard, LoaderOptions options,
                 Prepare prepare = {}) = delete;

  /// A pass, which the loader must outlive, as in DataLoader.
  using Iterator = LoaderPass<IterableLoader>;

  /// Begins a pass, which is an epoch or the rest of one. Throws also ValueError, where the tail is
  /// due, if Tail::pad meets an epoch of fewer samples than replicas.
  Iterator begin(Where where = Where::current());
  std::default_sentinel_t end() const { return {}; }

  /// Sets the epoch of the next pass. Throws ValueError for a negative epoch.
  void set_epoch(std::int64_t epoch, Where where = Where::current()) {
    set_position({epoch, 0}, where);
  }

  /// As in DataLoader. After the last batch `consumed` may exceed the number of samples, which no
  /// loader knows before.
  const SamplerPosition& position() const { return position_ ? *position_ : next_pass_; }

  /// Sets where the next pass begins, on any number of ranks. Throws ValueError for a negative
  /// number.
  void set_position(const SamplerPosition& position, Where where = Where::current());

 private:
  friend Iterator;
  class Reader;
  SamplerPosition after(const SamplerPosition& from) const;
  std::optional<Batch> make_batch(Reader& reader, std::int64_t number, std::int64_t epoch,
                                  Where where) const;

  const IterableDataset& dataset_;
  Shard shard_;
  LoaderOptions options_;
  Prepare prepare_;
  SamplerPosition next_pass_;
  std::optional<SamplerPosition> position_;  // during a pass
};

}  // namespace ringrad
