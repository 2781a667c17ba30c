// The collectives of a group that runs plans, written once for all kinds of memory.

#pragma once

#include "core/tensor.h"
#include "parallel/comm/plan_runner.h"
#include "parallel/comm/rank_session.h"

namespace ringrad {

/// Arguments are as Communicator's, which has checked them. All tensors of a call lie where the runner works.
class PlanCollectives {
 public:
  PlanCollectives(RankSession& session, PlanRunner& runner) : session_(session), runner_(runner) {}

  void all_reduce(const Tensor& tensor, ReduceOp op, Where where);
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op, Where where);
  void all_gather(const Tensor& output, const Tensor& input, Where where);
  void broadcast(const Tensor& tensor, int root, Where where);
  void reduce(const Tensor& tensor, int root, ReduceOp op, Where where);
  void all_to_all(const Tensor& output, const Tensor& input, Where where);

 private:
  void reduce_in_place(Collective collective, const CollectiveCall& call, const Tensor& tensor,
                       bool is_result, Where where);

  RankSession& session_;
  PlanRunner& runner_;
};

}  // namespace ringrad
