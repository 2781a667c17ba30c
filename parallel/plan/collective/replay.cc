#include "ringrad/parallel/plan/collective/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace ringrad {
namespace {

class Machine {
 public:
  Machine(const CollectivePlan& plan, int slots)
      : plan_(plan),
        slots_(slots),
        programs_(plan.world_size),
        message_(plan.steps.size()),
        after_(plan.steps.size(), -1),
        next_(plan.world_size, 0) {
    for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i)
      programs_[plan.steps[i].rank].push_back(i);
    replay_.partners.resize(plan.steps.size());
  }

  Replay run() {
    // Each pass lets every rank run until it must wait. The loop ends after a pass in which no rank
    // moved.
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

  // Sends not taken yet, a list through the plan's steps.
  struct Channel {
    int first = -1, last = -1;
    int num_messages = 0;  // messages with a send in the list
    int last_message = 0;
  };

  void push(Channel& channel, int send, bool continues) {
    if (!continues) ++channel.last_message;
    if (channel.first < 0 || message_[channel.last] != channel.last_message) ++channel.num_messages;
    message_[send] = channel.last_message;
    (channel.first < 0 ? channel.first : after_[channel.last]) = send;
    channel.last = send;
  }

  int pop(Channel& channel) {
    const int send = channel.first, next = after_[send];
    channel.first = next;
    if (next < 0 || message_[next] != message_[send]) --channel.num_messages;
    return send;
  }

  Channel& channel(int from, int to) {
    return channels_[std::int64_t{from} * plan_.world_size + to];
  }

  bool continues(int rank) const {
    if (next_[rank] == 0) return false;
    return continues_message(plan_.steps[programs_[rank][next_[rank] - 1]],
                             plan_.steps[programs_[rank][next_[rank]]]);
  }

  bool can_run(const Step& step) {
    if (is_send(step.op))
      return channel(step.rank, step.peers[0]).num_messages < slots_ || continues(step.rank);
    return std::all_of(step.peers.begin(), step.peers.end(), [&](int peer) {
      return peer == step.rank || channel(peer, step.rank).first >= 0;
    });
  }

  void run_step(int index) {
    const Step& step = plan_.steps[index];
    replay_.order.push_back(index);
    if (is_send(step.op)) push(channel(step.rank, step.peers[0]), index, continues(step.rank));
    if (!is_receive(step.op)) return;
    FewInts sends = step.peers;
    for (int& send : sends) {
      const int peer = std::exchange(send, -1);
      if (peer == step.rank) continue;
      send = pop(channel(peer, step.rank));
      replay_.partners[send] = {index};
    }
    replay_.partners[index] = std::move(sends);
  }

  const CollectivePlan& plan_;
  int slots_;
  std::vector<std::vector<int>> programs_;  // (world_size) step indices in each rank's order
  std::vector<int> message_;                // (steps) a send's, by its number on the channel
  std::vector<int> after_;                  // (steps) the send after it on the channel, or -1
  std::unordered_map<std::int64_t, Channel> channels_;  // by pair, those that are used
  std::vector<std::size_t> next_;                       // (world_size) position in its program
  Replay replay_;
};

}  // namespace

Replay replay(const CollectivePlan& plan, int slots) { return Machine(plan, slots).run(); }

}  // namespace ringrad
