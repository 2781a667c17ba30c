// Reducer: averages the gradients of a model over the ranks while backward computes them. It is the
// core of DistributedDataParallel.
//
//     backward   fc2 fc1 | conv2 | conv1              a hook per parameter counts what is complete
//     stream               [bucket 0][bucket 1][2]      reduces full buckets, all ranks alike
//                                            wait     backward returns when all are done
//
// A bucket is a slice of the gradient arena (gradient_buckets.h). Hooks on the parameters hold only
// a weak pointer to the reducer, and do nothing once it is gone.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/average_loss.h"
#include "ringrad/parallel/comm/communication_stream.h"
#include "ringrad/parallel/plan/predict/gradient_buckets.h"
#include "ringrad/parallel/train/common/gradient_presence.h"
#include "ringrad/parallel/train/common/known_parameters.h"

namespace ringrad {

/// A parameter's part of a bucket: its elements in the bucket's gradients, in order, from `offset`
/// on.
struct BucketParameter {
  std::string name;
  Shape shape;
  std::int64_t offset = 0;
};

/// The argument of a communication hook; it does not change until the hook's work is done.
struct GradientBucket {
  Tensor gradients;  ///< flat, this rank's own; the hook leaves the average over the ranks there
  std::size_t index = 0;  ///< among num_buckets, in the order of reduction
  std::size_t num_buckets = 0;
  std::vector<BucketParameter> parameters;  ///< the gradients hold zeros between them
};

/// Starts the reduction of a bucket on the stream, and returns without waiting for it
/// (communication_hooks.h).
using CommunicationHook =
    std::function<Work(const GradientBucket& bucket, CommunicationStream& stream)>;

enum class Overlap : std::uint8_t { automatic, never, always };

struct DistributedDataParallelOptions {
  /// A bucket is closed when it holds at least this many bytes. 0 derives a size from the cost of
  /// the group's links; where a library moves the data, and no cost is known, it means 4 MiB.
  std::int64_t bucket_bytes = 0;
  /// The same for the bucket at the end of the last arena, which as a rule is complete first; 0
  /// means a quarter of bucket_bytes.
  std::int64_t first_bucket_bytes = 0;
  /// Whether buckets are reduced while backward goes on, or by the thread that runs backward.
  /// `automatic` overlaps always on a GPU; on the CPU it overlaps over a network (where threads
  /// mostly wait), or if this machine has twice as many cores as ranks, but not where only one
  /// thread may communicate (Communicator::serves_all_threads).
  Overlap overlap = Overlap::automatic;
  /// Whether a pass may leave parameters out. A parameter that some ranks' losses reach gets the
  /// average gradient, to which the other ranks contribute zeros. One that no rank's loss reaches
  /// gets no gradient, and optimizers leave it alone. In each pass the ranks compare what they
  /// reached, in a message of one byte per parameter. If false, nothing is compared, and a pass
  /// that leaves out a parameter throws AutogradError with its name.
  bool allow_unused = true;
  /// Promises that every pass reaches the same parameters. Buckets then do not wait for parameters
  /// that the first pass did not reach, and parameters that it reached on no rank are not
  /// communicated. Checkpointed segments may share parameters. The first pass is reduced at its
  /// end. A pass that differs throws AutogradError.
  bool static_graph = false;
  /// Broadcast rank 0's buffers (running statistics) before every forward pass in training whose
  /// gradients are to be reduced. Passes under NoSync or NoGradGuard broadcast nothing.
  bool broadcast_buffers = true;
};

/// What communication has cost since the reducer was made.
struct CommunicationSummary {
  std::int64_t num_passes = 0;             ///< that ended with a reduction
  std::vector<std::int64_t> bucket_bytes;  ///< in the order of reduction
  bool overlaps = false;
  bool follows_arrival = false;     ///< buckets were rebuilt in the order of the first pass
  double communication_s = 0;       ///< time of all reductions
  double exposed_s = 0;             ///< part of it that backward waited for
  std::vector<std::string> unused;  ///< parameters that the latest pass did not reach on this rank

  /// The share of communication hidden behind computation; 0 if waiting, which includes waking up,
  /// took longer than communication itself.
  double overlap() const {
    return exposed_s < communication_s ? 1 - exposed_s / communication_s : 0;
  }
};
std::ostream& operator<<(std::ostream& out, const CommunicationSummary& summary);

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Gives all ranks rank 0's parameters, and packs them into arenas. The reducer's calls have
  /// their own purposes, so calls of two models never match, and neither do buckets of two
  /// successive passes.
  ///
  /// REQUIRES: all ranks hold the same model, which outlives it
  Reducer(nn::Module& module, Communicator& comm, const DistributedDataParallelOptions& options,
          Where where);

  /// Registers the hooks: backward passes are reduced from now on.
  void add_hooks();
  void set_communication_hook(CommunicationHook hook) { hook_ = std::move(hook); }

  /// Between pause() and resume(), passes are not reduced.
  void pause() { ++num_pauses_; }
  void resume() { --num_pauses_; }
  bool is_paused() const { return num_pauses_ > 0; }

  /// Weight of this rank's gradients in the next pass's average (default 1). The ranks' weights add
  /// up to world_size.
  void set_weight(double weight) { weight_ = weight; }

  /// `begin` is called before a pass that is to be reduced sends its first bucket, and `end` when
  /// all of them have been reduced. Empty functions remove the callbacks.
  void set_pass_callbacks(std::function<void()> begin, std::function<void()> end) {
    on_begin_ = std::move(begin);
    on_end_ = std::move(end);
  }

  /// Runs a task on the stream, where another model's buckets may be in progress, and waits for it.
  void run(const char* name, CommunicationStream::Task task, Where where);

  /// The mean over the ranks of a number that each of them has; under pause(), this rank's.
  double mean_over_ranks(double value, Where where);

  /// Takes part in the other ranks' reduction with zero gradients.
  void reduce_zeros();
  /// Reduces what has accumulated while paused, if the pass that should have reduced it reached no
  /// parameter.
  void reduce_now();
  std::int64_t num_passes() const { return summary_.num_passes; }

  /// Throws AutogradError if a parameter was unfrozen or added since the construction.
  void check_parameters(Where where) const { known_.check(where); }

  /// The purpose of every call except the reductions of every second pass's buckets.
  std::uint16_t purpose() const { return purposes_[0]; }
  std::size_t num_buckets() const { return buckets_.size(); }
  const std::vector<nn::ParameterArena>& arenas() const { return arenas_; }
  CommunicationSummary summary();

 private:
  struct Parameter {
    std::string name;
    std::size_t arena = 0;
    std::size_t index = 0;  // in the arena
    std::size_t bucket = 0;
    int arrival = 0;  // in this pass, from 1; 0: not yet
    int parts = 0;    // parts of its gradient that have come in this pass
    // parts that come in every pass of a static graph, as from checkpointed segments
    int num_parts = 1;
    bool was_reached = false;  // by any pass of this rank, reduced or not
    bool is_used = true;       // in a static graph: by this rank's passes
  };
  struct Bucket {
    BucketRange parameters;
    GradientBucket content;
    std::size_t num_missing = 0;
    bool is_used = true;  // in a static graph: on some rank
  };
  // A pass that reduces. Its end, also by an exception, waits for the reductions: the next pass
  // writes into the buckets.
  struct Pass {
    explicit Pass(std::shared_ptr<Reducer> of) : reducer(std::move(of)) {}
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    const std::shared_ptr<Reducer> reducer;
  };

  BucketSizes sizes_for(std::int64_t bytes) const;
  void make_buckets(const std::vector<int>& arrival);
  void gradient_completed(std::size_t parameter);
  void begin_pass();
  void reduce_complete(bool all);
  void reduce(Bucket& bucket);
  void finish();
  void check_reached() const;
  void reduce_all();
  void reduce_rest();
  bool compare_presence();
  void learn_from_first_pass();
  void wait();

  Communicator& comm_;
  const KnownParameters known_;
  // Successive passes use them alternately for their buckets. Otherwise a rank that gives up a pass
  // after its first bucket, and begins another pass, would send the new pass's first bucket where
  // other ranks send a later one.
  const std::array<std::uint16_t, 2> purposes_;
  bool is_other_pass_ = true;  // the pass uses the second purpose
  const Where where_;
  const DistributedDataParallelOptions options_;
  std::vector<nn::ParameterArena> arenas_;
  const std::optional<CostModel> links_;  // none if a library moves the data
  std::vector<Parameter> parameters_;     // in the order of arena and place
  Tensor presence_;                // of gradients, on any rank, after the latest reduced pass
  FrozenParameters frozen_later_;  // of those in arenas
  std::vector<ParameterPlace> places_;
  std::vector<Bucket> buckets_;  // in the order of reduction
  BucketSizes sizes_;
  CommunicationHook hook_;
  std::function<void()> on_begin_, on_end_;
  double weight_ = 1;
  int num_pauses_ = 0;
  std::size_t next_bucket_ = 0;
  int num_arrived_ = 0;
  // Owned by the engine's callback: a pass that fails destroys it, and the next pass starts anew.
  std::weak_ptr<Pass> running_pass_;
  bool has_learned_ = false;
  CommunicationSummary summary_;
  std::vector<Work> works_;     // of this pass
  CommunicationStream stream_;  // ends before what its thread uses
  std::optional<nn::AverageLoss> average_loss_;
};

}  // namespace ringrad
