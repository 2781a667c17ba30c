// BlockCommunicator: a rank whose collectives run in two levels, within its block of ranks and
// between the blocks (rank_blocks.h). The blocks are machines (hierarchical_group.cc) or processes
// (logical_ranks.cc).

#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "ringrad/parallel/comm/blocks/rank_blocks.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

class BlockCommunicator : public Communicator {
 protected:
  using Communicator::Communicator;

  virtual BlockCollectives by_block() const = 0;
  /// Calls compare(), and then `body` to move the data.
  virtual void perform(const CollectiveCall& call, Where where,
                       const std::function<void()>& body) = 0;
  /// Breaks the group, because the ranks have made different calls. `culprit` may be kNobody.
  [[noreturn]] virtual void refuse(const Operation& operation, int culprit,
                                   const std::string& reason) = 0;

  void compare(const Operation& operation) {
    const auto calls = by_block().calls(operation.call, operation.where);
    if (std::any_of(calls.begin(), calls.end(), [&](auto& c) { return c != operation.call; }))
      refuse(operation, odd_one_out(calls, world_size()),
             "all ranks must make the same call; got " + list_calls(calls, rank_names()));
  }

  void do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) final {
    perform(call_of(CollectiveOp::all_reduce, tensor, op), where,
            [&] { by_block().all_reduce(tensor, op, where); });
  }
  void do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                         Where where) final {
    perform(call_of(CollectiveOp::reduce_scatter, input, op), where,
            [&] { by_block().reduce_scatter(output, input, op, where); });
  }
  void do_all_gather(const Tensor& output, const Tensor& input, Where where) final {
    perform(call_of(CollectiveOp::all_gather, output), where,
            [&] { by_block().all_gather(output, input, where); });
  }
  void do_broadcast(const Tensor& tensor, int root, Where where) final {
    perform(call_of(CollectiveOp::broadcast, tensor, ReduceOp::sum, root), where,
            [&] { by_block().broadcast(tensor, root, where); });
  }
  void do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) final {
    perform(call_of(CollectiveOp::reduce, tensor, op, root), where,
            [&] { by_block().reduce(tensor, root, op, where); });
  }
  void do_all_to_all(const Tensor& output, const Tensor& input, Where where) override {
    perform(call_of(CollectiveOp::all_to_all, input), where,
            [&] { by_block().all_to_all(output, input, where); });
  }
  // Comparing the calls is the whole operation.
  void do_meet(const CollectiveCall& call, Where where) final {
    perform(call, where, [] {});
  }
};

}  // namespace ringrad
