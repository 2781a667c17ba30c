// Parameter server: asynchronous SGD with bounded staleness. Rank 0 holds the parameters and the
// optimizer. The other ranks are workers, which pull parameters and push gradients, each at its own
// speed.
//
//     rank 0   server    x --- x' --- x'' -- x''' ...       owns the parameters, the optimizer and
//                       |  \   ^      ^                     its state
//     rank 1   worker   |   pull, forward, backward, push   own copies of the parameters, data, and
//     rank 2   worker   pull, forward, backward, push       buffers (running statistics)
//
//     if (comm.rank() == 0) {
//       nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
//       serve_parameters(net, optimizer, comm, {.staleness = 2});
//     } else {
//       ParameterClient client(net, comm);
//       for (...) {                                         workers may have unequally many batches
//         client.pull();
//         cross_entropy(net(x), y).backward();
//         client.push();
//       }
//       client.finish();
//     }
//
// A worker's clock counts its gradients that the server has applied. With staleness s, a worker at
// clock c gets parameters to continue once every remaining worker is at clock c - s or later
// (worker_clocks.h).
//
// Guarantees:
// - What a worker pulls at clock c includes all its own gradients, and those of all workers' first
//   c - s steps. It may include later ones.
// - Each gradient is applied exactly once. No worker is ever more than s + 1 steps ahead of
//   another.
// - s = 0 is bulk synchronous: in each round the server adds the workers' gradients in rank order
//   and makes one step with their mean. Two runs give the same bits, whichever worker is faster.
//   With equal batches, the result is what one rank computes on all of them, up to rounding. A
//   worker that has finished is no longer part of the mean.
// - After finish() all ranks hold the server's final parameters, bit by bit.
//
// Not guaranteed for s > 0: bits. Each gradient is a step of its own when it arrives, scaled by 1 /
// remaining workers. For SGD without momentum, as many steps as there are workers amount to one
// step on the mean; momentum and moments see each gradient alone.
//
// Failure: the first rank that fails, ends without finish(), or makes no call for the group's
// deadline ends the others, with a CollectiveError that names it. The server tells a worker that
// waits for a slow one to keep waiting every few milliseconds, so a wait may exceed the deadline
// without being taken for a death. The deadline must be at least 100 ms.
//
// Paper: Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
//        Server"

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/replica.h"

namespace ringrad {

struct ParameterServerOptions {
  /// How many steps a worker may be ahead of the slowest one when it begins a step.
  std::int64_t staleness = 0;
};

/// Statistics of the server.
struct ParameterServerReport {
  std::int64_t num_steps = 0;               ///< made by the optimizer
  std::vector<std::int64_t> num_gradients;  ///< by rank; 0 for rank 0
  /// index: how far the worker was ahead of the slowest
  std::vector<std::int64_t> num_pulls_at_lead;
};

/// Rank 0's part: serves the parameters until all workers have finished.
///
/// REQUIRES: the optimizer is made of all trained parameters of the module; every other rank
///           constructs a ParameterClient at the same point
/// Throws:   ValueError on another rank, without workers, or unless staleness >= 0; CollectiveError
///           naming the worker that failed, or the ranks whose models differ; what the optimizer
///           throws
ParameterServerReport serve_parameters(const nn::Module& module, nn::Optimizer& optimizer,
                                       Communicator& comm,
                                       const ParameterServerOptions& options = {},
                                       Where where = Where::current());

/// The part of every other rank. Once a rank has failed, all calls throw a CollectiveError that
/// names it.
class ParameterClient {
 public:
  /// REQUIRES: module and comm outlive this object
  /// Throws:   ValueError on rank 0; CollectiveError naming the ranks whose models differ
  ParameterClient(const nn::Module& module, Communicator& comm, Where where = Where::current());
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  /// Replaces the parameters by the server's, as soon as this worker may begin its next step.
  void pull(Where where = Where::current());

  /// Sends the gradients, and clears them. Returns before the server has applied them.
  ///
  /// Throws: ValueError unless there was a pull since the last push; AutogradError for parameters
  ///         that were moved, or unfrozen, since the construction
  void push(Where where = Where::current());

  /// Announces that this worker makes no more steps. Returns when all workers have finished, with
  /// the final parameters.
  void finish(Where where = Where::current());

  /// clock(): gradients pushed. lead(): how far that was ahead of the slowest worker when the
  /// latest pull was granted.
  std::int64_t clock() const { return clock_; }
  std::int64_t lead() const { return lead_; }

 private:
  void check_not_finished(const char* operation, Where where) const;
  void receive_parameters(Where where);

  Communicator& comm_;
  const Replica replica_;
  const std::unique_ptr<Communicator> line_;  // to the server
  std::int64_t clock_ = 0, lead_ = 0;
  bool has_pulled_ = false, has_finished_ = false;
  const Unwinding unwinding_;
};

}  // namespace ringrad
