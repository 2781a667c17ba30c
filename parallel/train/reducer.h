// Reducer: averages the gradients of a model over the ranks while backward computes them. What
// DistributedDataParallel is made of.
//
//     backward   fc2 fc1 | conv2 | conv1              a hook per parameter counts what is complete
//     lane               [bucket 0][bucket 1][2]      full buckets are reduced, in the same order on all ranks
//                                            wait     backward returns when all are done
//
// A bucket is a slice of the gradient arena (gradient_buckets.h). Hooks on the parameters hold on to the reducer, and
// do nothing once its owner is gone.

#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/arena.h"
#include "nn/module.h"
#include "parallel/comm/communication_lane.h"
#include "parallel/plan/gradient_buckets.h"

namespace ringrad {

/// A parameter's part of a bucket: as many elements of the bucket's gradients as its shape has, from `offset` on.
struct BucketParameter {
  std::string name;
  Shape shape;
  std::int64_t offset = 0;
};

/// What a communication hook gets; it stays as it is until the hook's work is done.
struct GradientBucket {
  Tensor gradients;  ///< flat, this rank's own; the hook leaves the average over the ranks there
  std::size_t index = 0;  ///< among num_buckets, in the order of reduction
  std::size_t num_buckets = 0;
  std::vector<BucketParameter> parameters;  ///< between them the gradients hold zeros
};

/// Starts the reduction of a bucket on the lane, and returns without waiting for it (communication_hooks.h).
using CommunicationHook =
    std::function<Work(const GradientBucket& bucket, CommunicationLane& lane)>;

enum class Overlap : std::uint8_t { automatic, never, always };

struct DistributedDataParallelOptions {
  /// A bucket is closed when it holds at least this much; 0 takes what fits the group's links.
  std::int64_t bucket_bytes = 0;
  /// The same for the first; 0 means a quarter.
  std::int64_t first_bucket_bytes = 0;
  /// Whether buckets are reduced while backward goes on, or by the thread that computes it. On a GPU automatic means
  /// always; on the CPU, over a network (where threads mostly wait), or if this machine has twice as many cores as ranks;
  /// never where only one thread may communicate (Communicator::serves_all_threads).
  Overlap overlap = Overlap::automatic;
  /// Whether a pass may leave parameters out. A parameter that some ranks' losses reach gets the average gradient, to
  /// which the other ranks contribute zeros; one that no rank's loss reaches gets none, and optimizers leave it alone.
  /// The ranks compare what they reached in each pass, in a message of one byte per parameter. If false, a pass that
  /// leaves out a parameter throws AutogradError with its name, and nothing is compared.
  bool allow_unused = true;
  /// Every pass reaches the same parameters: buckets need not wait for those that the first did not reach, and those
  /// that it reached on no rank are not communicated. Checkpointed segments may share parameters. The first pass is
  /// reduced at its end. A pass that differs throws AutogradError.
  bool static_graph = false;
  /// Broadcast rank 0's buffers (running statistics) before every forward pass in training that is to be reduced: not
  /// under NoSync or NoGrad.
  bool broadcast_buffers = true;
};

/// What communication has cost since the reducer was made.
struct CommunicationSummary {
  std::int64_t num_passes = 0;             ///< that ended with a reduction
  std::vector<std::int64_t> bucket_bytes;  ///< in the order of reduction
  bool overlaps = false;
  bool follows_arrival = false;     ///< buckets were made anew, from the order of the first pass
  double communication_s = 0;       ///< time of all reductions
  double exposed_s = 0;             ///< of which backward waited for
  std::vector<std::string> unused;  ///< parameters that the latest pass did not reach on this rank

  /// The share of communication that was hidden behind computation. None if waiting, of which waking up is a part, took
  /// longer than communication itself.
  double overlap() const {
    return exposed_s < communication_s ? 1 - exposed_s / communication_s : 0;
  }
};
std::ostream& operator<<(std::ostream& out, const CommunicationSummary& summary);

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Gives all ranks rank 0's parameters, and packs them.
  ///
  /// REQUIRES: all ranks hold the same model
  Reducer(nn::Module& module, Communicator& comm, const DistributedDataParallelOptions& options,
          Where where);

  /// From now on backward passes are reduced.
  void add_hooks();
  void set_communication_hook(CommunicationHook hook);

  /// Between these passes are not reduced.
  void pause() { ++num_pauses_; }
  void resume() { --num_pauses_; }
  bool is_paused() const { return num_pauses_ > 0; }

  /// The gradients of the next pass count so much in the average; 1 unless it is told. The ranks' weights add up to
  /// their number.
  void set_weight(double weight) { weight_ = weight; }

  /// Takes part in the other ranks' reduction with gradients of zero.
  void reduce_zeros();
  /// Reduces what has come together while it was paused, where the pass that should have done so has reached nothing.
  void reduce_now();
  std::int64_t num_passes() const { return summary_.num_passes; }

  /// Until nothing is being reduced; backward passes that end without an error do so themselves.
  void wait();

  /// Throws AutogradError if a parameter that was frozen when this was made requires a gradient now.
  void check_frozen(Where where) const;

  std::size_t num_buckets() const { return buckets_.size(); }
  const std::vector<nn::ParameterArena>& arenas() const { return arenas_; }
  CommunicationSummary summary();

 private:
  struct Parameter {
    std::string name;
    std::size_t arena = 0;
    std::size_t index = 0;  // in the arena
    std::size_t bucket = 0;
    int arrival = 0;    // in this pass, from 1; 0: not yet
    int parts = 0;      // of its gradient that have come in this pass
    int num_parts = 1;  // that come in every pass of a static graph, as from checkpointed segments
    bool was_reached = false;  // by any pass of this rank, also one that is not reduced
    bool is_used = true;       // in a static graph: by this rank's passes
  };
  struct Bucket {
    BucketRange parameters;
    GradientBucket content;
    std::size_t num_missing = 0;
    bool is_used = true;  // in a static graph: on some rank
  };
  struct Pass {};

  BucketSizes sizes_for(std::int64_t bytes) const;
  void make_buckets(const std::vector<int>& arrival);
  void gradient_completed(std::size_t parameter);
  void begin_pass();
  void reduce_complete(bool all);
  void reduce(Bucket& bucket);
  void finish();
  void check_reached() const;
  void reduce_rest();
  void compare_presence();
  void learn_from_first_pass();

  Communicator& comm_;
  const Where where_;
  const DistributedDataParallelOptions options_;
  std::vector<nn::ParameterArena> arenas_;
  const std::optional<CostModel> links_;  // none if a library moves the data
  std::vector<Tensor> frozen_;
  std::vector<Parameter> parameters_;  // in the order of arena and place
  Tensor presence_;  // of gradients, on any rank, after the latest pass that was reduced
  std::vector<ParameterPlace> places_;
  std::vector<Bucket> buckets_;  // in the order of reduction
  BucketSizes sizes_;
  CommunicationHook hook_;
  double weight_ = 1;
  int num_pauses_ = 0;
  std::size_t next_bucket_ = 0;
  int num_arrived_ = 0;
  // Owned by the engine's callback: a pass that fails takes it along, and the next one starts anew.
  std::weak_ptr<Pass> running_pass_;
  bool has_learned_ = false;
  CommunicationSummary summary_;
  std::vector<Work> works_;  // of this pass
  CommunicationLane lane_;   // ends before what its thread uses
};

}  // namespace ringrad
