// Join: data parallel training where ranks have different numbers of samples. Ranks that run out of
// data early take part in the others' reductions until all are done.
//
//     Join join(model);
//     for (const Batch& batch : loader) {
//       optimizer.zero_grad();
//       cross_entropy(model(batch.input()), batch.target()).backward();
//       optimizer.step();
//     }
//     join.finish([&] { optimizer.step(); });
//
//     rows    step 1   step 2   step 3         when a backward pass begins every rank announces
//     rank 0    4        4        1            its rows, and weighs its gradients by
//     rank 1    4        2       finish: 0
//     rank 2    4       finish: 0  0              weight = world_size rows / total rows
//
// Guarantee: if a rank's loss is the mean over the rows of its x (axis 0), each step averages over
// the samples that all ranks have in that step, as one rank with all of them would, up to rounding.
// Where all ranks have the same number of rows, the weights are 1 and the bits are those of
// training without Join. Replicas and optimizers stay identical bit by bit, since all ranks take
// every step. Buffers (running statistics) are those of the lowest rank that has data; after
// finish() all ranks have those of the last such rank.
//
// README.md says more: "While a Join lives".

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {

class Join {
 public:
  /// From now on backward passes through the model announce their rows, in one small all_gather.
  /// This holds whether the model or its module is called, in training or in evaluation mode. Gives
  /// all ranks rank 0's buffers.
  ///
  /// REQUIRES: model outlives it; every rank makes one at the same point. The CollectiveError of
  ///           the next pass names the ranks that have none
  /// Throws:   ValueError if the model already has a Join. From then on backward passes throw
  ///           CollectiveError on all ranks if another model's pass meets this one's, or if only
  ///           some ranks have changed their parameters since the latest pass; AutogradError for a
  ///           pass that reaches no call of the model
  explicit Join(DistributedDataParallel& model, Where where = Where::current());
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// Takes part in the other ranks' passes with zero rows until no rank has any. After each pass
  /// the gradients are the average over all ranks, and `step` must do what the other ranks do after
  /// backward: steps of optimizers and schedules. Returns the number of such passes.
  ///
  /// Throws: ValueError if it was called before, or if rows were accumulated under NoSync and not
  ///         reduced; AutogradError with static_graph if this rank has had no data at all; what
  ///         `step` throws
  std::int64_t finish(const std::function<void()>& step, Where where = Where::current());

  /// The same for several models of one group, in the order of their passes in a step.
  static std::int64_t finish(const std::vector<Join*>& joins, const std::function<void()>& step,
                             Where where = Where::current());

 private:
  struct Rows;

  static DistributedDataParallel& prepared(DistributedDataParallel& model, Where where);
  void check_call(const Tensor& x, Where where) const;
  void watch(const Tensor& x, const Tensor& y) const;
  void begin_pass();
  bool announce(std::int64_t rows, Where where);
  void share_buffers(Where where);
  void end_calls(Where where);
  bool take_part(Where where);
  std::uint64_t version() const;

  DistributedDataParallel& model_;
  Where where_;  // of the latest call of the model, for messages; at first of this object
  const std::shared_ptr<Rows> rows_;     // graphs may outlive the Join
  nn::ModuleHookHandle before_, after_;  // around calls of the module
  std::uint64_t version_ = 0;            // of the parameters, at the latest announcement
  bool has_announced_ = false;
  bool finished_ = false;
};

}  // namespace ringrad
