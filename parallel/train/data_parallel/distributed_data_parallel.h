// DistributedDataParallel: every rank holds the whole model and works on its own part of the batch;
// gradients are averaged.
//
//     rank 0   forward  backward --.                     .-- step   each rank owns: a full replica,
//     rank 1   forward  backward --+-- all_reduce mean --+-- step   full optimizer state, and 1/n
//                                                                   of every batch
//
// Guarantee: all replicas start from rank 0's values, which the constructor broadcasts, and hold
// identical bits after every step, because an all-reduce gives all ranks the same bits and the
// optimizer is deterministic. With equal parts of the batch, the average of the ranks' mean losses
// is the mean loss of the global batch, so n ranks compute what one rank computes on the whole
// batch, up to the rounding of a different order of summation. With unequal parts, a rank's loss
// must be its sum times n / global batch, or see join.h. Batch norm normalises by each rank's own
// part, unless it is synchronised (sync_batch_norm.h). For bits that do not depend on the number of
// processes or GPUs, see comm/host/logical_ranks.h.
//
// README.md says more: "Buckets, and accumulated passes".

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

class DistributedDataParallel {
 public:
  /// Checks that all ranks hold the same parameters and buffers by name, shape and dtype, and gives
  /// all of them rank 0's values.
  ///
  /// REQUIRES: module and comm outlive this object; every rank constructs it at the same point,
  ///           with the same options
  /// Throws:   CollectiveError naming the ranks whose models differ; ValueError if a bucket size is
  ///           negative
  DistributedDataParallel(nn::Module& module, Communicator& comm,
                          const DistributedDataParallelOptions& options = {},
                          Where where = Where::current());
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// While it lives, backward passes add to this rank's gradients alone. The first pass after it
  /// reduces everything accumulated since. All ranks must do the same; until that pass their
  /// gradients differ.
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& model) : reducer_(model.reducer_) {
      reducer_->pause();
    }
    ~NoSync() { reducer_->resume(); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    const std::shared_ptr<Reducer> reducer_;
  };

  /// module(x), with its hooks. In training it sends buffers from one rank to all if options ask
  /// for it.
  Tensor forward(const Tensor& x, Where at = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) { return forward(x, where); }

  /// What forward() does before the module's own forward, for callers that run the module
  /// themselves, as a pipeline does. All ranks must call it. It broadcasts buffers if the pass is
  /// to be reduced. A Join needs it only before calls that are not module(x), such as overloads of
  /// forward(), and then counts the rows of x; a backward pass must follow.
  ///
  /// Throws: AutogradError for a parameter that was frozen when this was constructed and requires a
  ///         gradient now, or that was added since
  void begin_forward(const Tensor& x, Where where = Where::current());

  /// The module that is trained.
  nn::Module& module() { return module_; }
  std::size_t num_buckets() const { return reducer_->num_buckets(); }

  /// Averages what has accumulated under NoSync, if the pass after it reached no parameter and
  /// therefore did not reduce. All ranks must call it or have such a pass.
  void average_now() { reducer_->reduce_now(); }
  /// The number of times gradients have been averaged.
  std::int64_t num_passes() const { return reducer_->num_passes(); }

  /// Reduces buckets by `hook` (communication_hooks.h) instead of averaging them as they are. An
  /// empty hook restores plain averaging.
  void set_communication_hook(CommunicationHook hook) {
    reducer_->set_communication_hook(std::move(hook));
  }

  /// What communication has cost so far, how much of it backward did not wait for, and which
  /// parameters the latest pass did not reach. Printable.
  CommunicationSummary summary() { return reducer_->summary(); }

  /// Gives all ranks rank 0's buffers, or with a Join those of the lowest rank that has data. Call
  /// it before evaluation, so that all ranks evaluate the same model.
  void sync_buffers(Where where = Where::current());

 private:
  friend class Join;

  void prepare(Where where);
  void broadcast_buffers(Where where) const;

  nn::Module& module_;
  Communicator& comm_;
  const bool broadcasts_buffers_;
  std::shared_ptr<Reducer> reducer_;
  // While a Join lives: its work before a forward pass. If by_hand, it also counts the rows of x.
  std::function<void(const Tensor& x, bool by_hand, Where where)> join_;
  int buffers_root_ = 0;  // the rank whose buffers all ranks take
};

/// True on every rank if all ranks' parameters and buffers are equal bit by bit. Every rank must
/// call it.
bool replicas_identical(const nn::Module& module, Communicator& comm,
                        Where where = Where::current());

}  // namespace ringrad
