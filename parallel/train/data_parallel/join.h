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
//     rows    step 1   step 2   step 3         before each forward pass every rank announces
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

#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {

class Join {
 public:
  /// From now on the model's forward passes announce their rows, in one small all_gather.
  ///
  /// REQUIRES: model outlives it; every rank makes one at the same point. The CollectiveError of
  ///           the next forward pass names the ranks that do not
  /// Throws:   ValueError if the model already has a Join
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

 private:
  void before_forward(const Tensor& x, Where where);
  bool announce(std::int64_t rows, Where where);

  DistributedDataParallel& model_;
  std::int64_t rows_ = 0;  // of passes under NoSync since the latest reduction
  bool finished_ = false;
};

}  // namespace ringrad
