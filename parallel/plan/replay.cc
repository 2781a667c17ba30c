#include "parallel/plan/replay.h"

#include <algorithm>
#include <cstddef>
#include <deque>

namespace ringrad {
namespace {

class Machine {
 public:
  Machine(const CollectivePlan& plan, int slots)
      : plan_(plan),
        slots_(static_cast<std::size_t>(slots)),
        programs_(plan.world_size),
        channels_(static_cast<std::size_t>(plan.world_size) * plan.world_size),
        next_(plan.world_size, 0) {
    for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i)
      programs_[plan.steps[i].rank].push_back(i);
    replay_.partners.resize(plan.steps.size());
  }

  Replay run() {
    // Each pass lets every rank run until it must wait; a pass in which nobody moved is the end.
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < plan_.world_size; ++rank)
        while (current(rank) >= 0 && can_run(plan_.steps[current(rank)])) {
          run_step(current(rank));
          ++next_[rank];
          moved = true;
        }
    }
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      replay_.stuck_at.push_back(current(rank));
      replay_.finished = replay_.finished && current(rank) < 0;
    }
    return std::move(replay_);
  }

 private:
  int current(int rank) const {
    return next_[rank] < programs_[rank].size() ? programs_[rank][next_[rank]] : -1;
  }

  std::deque<int>& channel(int from, int to) { return channels_[from * plan_.world_size + to]; }

  bool can_run(const Step& step) {
    if (step.op == StepOp::send) return channel(step.rank, step.peers[0]).size() < slots_;
    return std::all_of(step.peers.begin(), step.peers.end(), [&](int peer) {
      return peer == step.rank || !channel(peer, step.rank).empty();
    });
  }

  void run_step(int index) {
    const Step& step = plan_.steps[index];
    replay_.order.push_back(index);
    if (step.op == StepOp::send) {
      channel(step.rank, step.peers[0]).push_back(index);
      return;
    }
    for (int peer : step.peers) {
      int send = -1;
      if (peer != step.rank) {
        send = channel(peer, step.rank).front();
        channel(peer, step.rank).pop_front();
        replay_.partners[send] = {index};
      }
      replay_.partners[index].push_back(send);
    }
  }

  const CollectivePlan& plan_;
  std::size_t slots_;
  std::vector<std::vector<int>> programs_;  // (world_size) step indices in each rank's order
  std::vector<std::deque<int>> channels_;   // (world_size, world_size) sends not yet taken
  std::vector<std::size_t> next_;           // (world_size) position in its program
  Replay replay_;
};

}  // namespace

Replay replay(const CollectivePlan& plan, int slots) { return Machine(plan, slots).run(); }

}  // namespace ringrad
