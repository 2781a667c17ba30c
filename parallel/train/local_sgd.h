// LocalSGD: every rank trains a replica on its own data, and from time to time they average their parameters.
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
// Each rank owns a full replica and its own optimizer with its own state: momentum is not averaged. Averaged are the
// parameters, and the floating buffers (running statistics; the others become rank 0's). So who goes on with
// DistributedDataParallel needs a new optimizer: with momentum that differs by rank replicas would drift apart.
//
// Guarantees:
// - All replicas hold identical bits at the start and after each average, and differ in between.
// - With period 1 and SGD, momentum and weight decay included, it computes what DistributedDataParallel computes, up
//   to rounding: such steps are linear in parameters and gradients, so it is the same to average before or after. Not
//   so with Adam.
// - With period k it sends 1/k of the parameters' bytes that DistributedDataParallel sends, and a number per average.
// Not guaranteed: what one rank would compute on the whole batch, for k > 1. For smooth convex losses it converges as
// fast in steps as long as k is below the order of sqrt(steps / ranks).
//
// Papers: McMahan et al. 2016, arXiv:1602.05629; Stich 2018, arXiv:1805.09767; the schedule that is synchronous first,
//         Lin et al. 2018, arXiv:1808.07217

#pragma once

#include <cstdint>

#include "nn/module.h"
#include "nn/state_dict.h"
#include "parallel/comm/communicator.h"
#include "parallel/train/replica.h"

namespace ringrad {

struct LocalSGDOptions {
  /// Steps that a rank goes alone, counted with the one that ends in an average.
  std::int64_t period = 8;
  /// The first so many steps are all averaged: replicas go apart once the loss no longer changes fast.
  std::int64_t num_synchronous_steps = 0;
  bool average_buffers = true;
};

class LocalSGD {
 public:
  /// Gives all ranks rank 0's parameters and buffers.
  ///
  /// REQUIRES: module and comm outlive this object; every rank constructs it at the same point
  /// Throws:   ValueError unless period > 0 and num_synchronous_steps >= 0; CollectiveError naming the ranks whose
  ///           models differ
  LocalSGD(nn::Module& module, Communicator& comm, const LocalSGDOptions& options = {},
           Where where = Where::current());

  /// An optimizer has made a step. Averages if one is due, and says whether it did.
  ///
  /// Throws: as sync
  bool step(Where where = Where::current());

  /// Averages what has been done since the last average. All ranks call it, after equally many steps.
  ///
  /// Throws: CollectiveError with the number of each rank if ranks have made unequally many steps; AutogradError for
  ///         parameters that were moved, or unfrozen, since the construction
  void sync(Where where = Where::current());

  std::int64_t num_steps() const { return num_steps_; }

  /// "steps", and the step after which the latest "average" was taken. Between averages a checkpoint must also hold each
  /// rank's replica and optimizer (ShardedCheckpoint::add_per_rank).
  nn::StateDict state_dict() const;
  /// Throws: ValueError unless 0 <= average <= steps
  void load_state_dict(const nn::StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would throw, and changes nothing.
  void check_state_dict(const nn::StateDict& state, Where where = Where::current()) const;

 private:
  bool is_due() const;
  void check_equal_steps(Where where) const;
  void average_buffers(Where where) const;

  nn::Module& module_;
  Communicator& comm_;
  const LocalSGDOptions options_;
  const Replica replica_;
  std::int64_t num_steps_ = 0;
  std::int64_t last_average_ = 0;  // the step it came after
};

}  // namespace ringrad
