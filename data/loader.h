// DataLoader: passes over a dataset, in batches.
//
//     DataLoader loader(dataset, sampler, {.batch_size = 128, .num_workers = 2,
//                                          .transforms = {normalize({0.286f}, {0.353f})}});
//     for (int epoch = 0; epoch < 3; ++epoch)
//       for (const Batch& batch : loader) step(batch.input(), batch.target());
//
// Every pass is an epoch. Beginning one takes the sampler's current epoch and moves the sampler on
// to the next. So each pass has another order, and the ranks of a job, which make their passes
// together, agree on it. set_epoch resumes at the start of any epoch. set_position resumes in the
// middle of one, on any number of ranks and with batches of any size:
//
//     SamplerPosition saved = loader.position();    in the loop: after the current batch
//     loader.set_position(saved);                   the next pass continues from there
//
// The batches and their order depend only on dataset, sampler, options and epoch, not on
// num_workers or timing. So while a batch is made, default_generator() is a separate stream, which
// depends only on LoaderOptions::seed, the epoch and the batch's first sample; manual_seed has no
// effect there.
// Workers use the default device of the thread that begins the pass, and record operations if that
// thread does. They divide its OpenMP threads among themselves. They do not take over Autocast: a
// transform that needs it makes its own. A forked child does not have its parent's workers: if it
// continues or ends a pass of its parent, it waits for them for ever.

#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/data/dataset.h"
#include "ringrad/data/loader_pass.h"
#include "ringrad/data/sampler.h"
#include "ringrad/data/transform.h"

namespace ringrad {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool drop_last = false;  ///< leave out a last batch that is smaller than the others
  int num_workers = 0;     ///< threads that make batches; 0 makes each on request
  int prefetch = 2;        ///< finished batches that may wait, per worker; at most kMostPrefetch
  std::vector<Transform> transforms = {};  ///< applied to the first tensor of each batch
  std::uint64_t seed = 0;                  ///< of all random numbers drawn for a batch
  /// A GPU: batches are then in pinned memory (core/pinned_memory.h), so that to(x, gpu) copies
  /// them while that GPU computes.
  std::optional<Device> pin_for = {};

  static constexpr int kMostWorkers = 1024, kMostPrefetch = 4096;

  /// Throws:  ValueError unless batch_size >= 1, 0 <= num_workers <= kMostWorkers and
  ///          1 <= prefetch <= kMostPrefetch; DeviceError unless pin_for is a GPU
  void check(const char* loader, Where where) const;
  /// The end of making a batch: applies the transforms and pins it.
  Batch finished(Batch batch, const SampleKeys& keys, Where where) const;
};

class DataLoader {
 public:
  /// Keeps references to the dataset and the sampler, which must outlive the loader.
  /// Throws:  as LoaderOptions::check
  DataLoader(const Dataset& dataset, Sampler& sampler, LoaderOptions options,
             Where where = Where::current());
  DataLoader(const Dataset&& dataset, Sampler& sampler, LoaderOptions options) = delete;

  /// A pass, which the loader must outlive. It holds the threads, which end with it, even if the
  /// loop is left early.
  using Iterator = LoaderPass<DataLoader>;

  /// Begins a pass. If fetching or transforming a batch throws, in any thread, the exception is
  /// thrown where the batch is due: here for the first batch, in operator++ for the others.
  Iterator begin(Where where = Where::current());
  std::default_sentinel_t end() const { return {}; }

  /// The number of batches in a pass over a whole epoch.
  std::int64_t size() const;

  /// Sets the epoch of the next pass. Throws ValueError for a negative epoch.
  void set_epoch(std::int64_t epoch, Where where = Where::current()) {
    set_position({epoch, 0}, where);
  }

  /// During a pass: the position of all ranks once each has processed its current batch; of several
  /// passes, the one that moved last counts. The last batch of an epoch leads to the end of that
  /// epoch; a pass from there has no batches. Before and after a pass: where the next pass begins.
  /// A pass that ends early, or by an exception, keeps its position.
  const SamplerPosition& position() const { return position_ ? *position_ : sampler_.position(); }

  /// Sets where the next pass begins. Throws ValueError unless the sampler has this position.
  void set_position(const SamplerPosition& position, Where where = Where::current()) {
    sampler_.set_position(position, where);
    position_.reset();
  }

 private:
  friend Iterator;
  SamplerPosition after(const SamplerPosition& from) const {
    return sampler_.after(from, options_.batch_size);
  }
  std::int64_t num_batches(std::int64_t num_indices) const;
  Batch make_batch(const SampleKeys& keys, Where where) const;

  const Dataset& dataset_;
  Sampler& sampler_;
  LoaderOptions options_;
  std::optional<SamplerPosition> position_;  // during a pass
};

}  // namespace ringrad
