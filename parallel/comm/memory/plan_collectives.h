// The collectives of a group that runs plans, written once for all kinds of memory.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

/// One call of one rank: the one that matches `operation`. Communicator has checked the arguments,
/// and all tensors lie where the runner works.
class PlanCollectives {
 public:
  PlanCollectives(RankSession& session, PlanRunner& runner, const Operation& operation)
      : session_(session), runner_(runner), operation_(operation) {}

  /// Runs the call. Collectives in place have one tensor, which is both.
  void run(const Tensor& output, const Tensor& input);

 private:
  class SharedBuffer;

  const PlanPrograms& programs();
  void reduce_in_place(const Tensor& tensor, bool is_result);
  void reduce_scatter(const Tensor& output, const Tensor& input);
  void all_gather(const Tensor& output, const Tensor& input);
  void broadcast(const Tensor& tensor);
  void all_to_all(const Tensor& output, const Tensor& input);

  RankSession& session_;
  PlanRunner& runner_;
  Operation operation_;
};

}  // namespace ringrad
