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
#include "ringrad/parallel/comm/gather_values.h"

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
    const auto calls = gather_values(by_block(), world_size(), operation.call, operation.where);
    if (std::any_of(calls.begin(), calls.end(), [&](auto& c) { return c != operation.call; }))
      refuse(operation, odd_one_out(calls, world_size()),
             "all ranks must make the same call; got " + list_calls(calls, rank_names()));
  }

  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override {
    perform(call, where, [&] { by_block().run(call, output, input, where); });
  }
  // Comparing the calls is the whole operation.
  void do_meet(const CollectiveCall& call, Where where) final {
    perform(call, where, [] {});
  }
};

}  // namespace ringrad
