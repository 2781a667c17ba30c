// LocalSGD: every rank trains a replica on its own data, and the ranks average their parameters
// from time to time.
//
//     rank 0   x0 -- step -- step -- step --.              .-- step -- step -- ...
//     rank 1   x0 -- step -- step -- step --+-- average  --+-- step -- step -- ...    period = 3
//
//     LocalSGD average(net, comm, {.period = 8});
//     for (...) {
//       optimizer.zero_grad();
//       cross_entropy(net(x), y).backward();
//       optimizer.step();
//       average.step();
//     }
//     average.sync();                        the last steps
//
// Each rank owns a full replica and an optimizer with its own state: momentum is not averaged. The
// parameters and the floating buffers (running statistics) are averaged; other buffers take rank
// 0's values. To continue with DistributedDataParallel, make a new optimizer: with momentum that
// differs by rank, replicas would drift apart.
//
// With period 1 and SGD it computes what DistributedDataParallel computes, up to rounding;
// README.md, "LocalSGD: what is guaranteed", has the rest.
//
// Papers: McMahan et al. 2016, arXiv:1602.05629; Stich 2018, arXiv:1805.09767; the schedule that is
//         synchronous first, Lin et al. 2018, arXiv:1808.07217

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/nn/state_dict.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/replica.h"

namespace ringrad {

struct LocalSGDOptions {
  /// Number of steps from one average to the next, including the step that ends in the average.
  std::int64_t period = 8;
  /// The number of first steps that all end in an average: replicas separate once the loss no
  /// longer changes fast.
  std::int64_t num_synchronous_steps = 0;
  bool average_buffers = true;
};

class LocalSGD {
 public:
  /// Gives all ranks rank 0's parameters and buffers.
  ///
  /// REQUIRES: module and comm outlive this object; every rank constructs it at the same point
  /// Throws:   ValueError unless period > 0 and num_synchronous_steps >= 0; CollectiveError naming
  ///           the ranks whose models differ
  LocalSGD(nn::Module& module, Communicator& comm, const LocalSGDOptions& options = {},
           Where where = Where::current());

  /// Call it after each step of the optimizer. Averages if an average is due, and returns whether
  /// it did.
  ///
  /// Throws: as sync
  bool step(Where where = Where::current());

  /// Averages the parameters now. All ranks must call it, after equal numbers of steps. Tensors
  /// that no rank has changed since the latest average, such as frozen parameters, keep their bits.
  ///
  /// Throws: CollectiveError with each rank's number of steps if these differ; AutogradError for
  ///         parameters that were moved, or unfrozen, since the construction
  void sync(Where where = Where::current());

  std::int64_t num_steps() const { return num_steps_; }

  /// "steps", and "average", the step after which the latest average was taken. Between averages a
  /// checkpoint must also hold each rank's replica and optimizer (ShardedCheckpoint::add_per_rank).
  nn::StateDict state_dict() const;
  /// Throws: ValueError unless 0 <= average <= steps
  void load_state_dict(const nn::StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would throw, and changes nothing.
  void check_state_dict(const nn::StateDict& state, Where where = Where::current()) const;

 private:
  using Version = std::pair<const Storage*, std::uint32_t>;

  bool is_due() const;
  void check_equal_steps(Where where) const;
  std::vector<Tensor> tensors() const;
  std::vector<Version> versions() const;
  std::vector<bool> changed_on_any_rank(Where where) const;

  nn::Module& module_;
  Communicator& comm_;
  const LocalSGDOptions options_;
  const Replica replica_;
  std::int64_t num_steps_ = 0;
  std::int64_t last_average_ = 0;  // the step that the latest average followed
  std::vector<Version> averaged_;  // versions() after it
};

}  // namespace ringrad
