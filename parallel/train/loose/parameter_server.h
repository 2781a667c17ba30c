// Parameter server: asynchronous SGD with bounded staleness. Rank 0 holds the parameters and the
// optimizer; the other ranks, workers, pull parameters and push gradients at their own speed.
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
// README.md says more: "Parameter server: what is guaranteed".
//
// Paper: Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
//        Server"

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/optimizer.h"
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
