// Parameter server: asynchronous SGD with bounded staleness. Rank 0 holds the parameters and the optimizer; the others
// are workers, which pull parameters and push gradients, each at its own speed.
//
//     rank 0   server    x --- x' --- x'' -- x''' ...       owns: the parameters, the optimizer and its state
//                       |  \   ^      ^
//     rank 1   worker   |   pull, forward, backward, push   own: a copy of the parameters, their own data, and
//     rank 2   worker   pull, forward, backward, push       their own buffers (running statistics)
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
// A worker's clock counts its gradients that the server has applied. With staleness s a worker at clock c gets
// parameters to go on with once every worker that is still there is at clock c - s or later (worker_clocks.h).
//
// Guarantees:
// - What a worker pulls at clock c includes all its own gradients, and all gradients of all workers of their first
//   c - s steps. It may include later ones.
// - Each gradient is applied exactly once. No worker is ever more than s + 1 steps ahead of another.
// - s = 0 is bulk synchronous: in each round the server adds the workers' gradients in the order of rank and makes one
//   step with their mean. So two runs give the same bits, whoever is faster; and with equal batches it computes what
//   one rank computes on all of them, up to rounding. As long as there are rounds: a worker that has finished is no
//   longer part of the mean.
// - After finish() all ranks hold the server's final parameters, bit by bit.
// Not guaranteed for s > 0: bits. Each gradient is a step of its own when it comes, scaled by 1 / workers still there; so
// for SGD without momentum as many steps as there are workers amount to one on the mean. Momentum and moments see each
// gradient alone.
//
// Failure: the first rank that fails, ends without finish(), or makes no call for as long as the group's deadline ends
// the others, with a CollectiveError that names it. A worker that waits for a slow one is told so every few
// milliseconds, so that nobody takes waiting for death: the wait may be longer than a deadline, which must not be
// below 100 ms.
//
// Paper: Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server"

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/module.h"
#include "nn/optimizer.h"
#include "parallel/comm/communicator.h"
#include "parallel/train/replica.h"

namespace ringrad {

struct ParameterServerOptions {
  /// How many steps a worker may be ahead of the slowest when it begins one.
  std::int64_t staleness = 0;
};

/// What the server has seen.
struct ParameterServerReport {
  std::int64_t num_steps = 0;                   ///< of the optimizer
  std::vector<std::int64_t> num_gradients;      ///< of each rank; none of rank 0
  std::vector<std::int64_t> num_pulls_at_lead;  ///< by how far the worker was ahead of the slowest
};

/// The part of rank 0: serves the parameters until all workers have finished.
///
/// REQUIRES: the optimizer is made of all parameters of the module that are trained; every other rank constructs a
///           ParameterClient at the same point
/// Throws:   ValueError on another rank, without workers, or unless staleness >= 0; CollectiveError naming the worker
///           that failed, or the ranks whose models differ; what the optimizer throws
ParameterServerReport serve_parameters(const nn::Module& module, nn::Optimizer& optimizer,
                                       Communicator& comm,
                                       const ParameterServerOptions& options = {},
                                       Where where = Where::current());

/// The part of every other rank. Its calls throw CollectiveError, which says who, once a rank has failed.
class ParameterClient {
 public:
  /// REQUIRES: module and comm outlive this object
  /// Throws:   ValueError on rank 0; CollectiveError naming the ranks whose models differ
  ParameterClient(const nn::Module& module, Communicator& comm, Where where = Where::current());
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  /// Takes over the server's parameters, as soon as this worker may begin its next step.
  void pull(Where where = Where::current());

  /// Sends the gradients, and clears them. Returns before they are applied.
  ///
  /// Throws: ValueError unless there was a pull since the last one; AutogradError for parameters that were moved, or
  ///         unfrozen, since the construction
  void push(Where where = Where::current());

  /// This worker makes no more steps. Returns when all have finished, with the final parameters.
  void finish(Where where = Where::current());

  /// Gradients pushed, and how far that was ahead of the slowest worker when the latest pull was granted.
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
  const int exceptions_before_;
};

}  // namespace ringrad
