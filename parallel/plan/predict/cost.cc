#include "ringrad/parallel/plan/predict/cost.h"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

// Only the order of messages on a shared way in depends on time: a queue of the first bytes that
// reach their way in keeps it. Everything else follows from what a rank waits for, so ranks run
// ahead as far as they can, each with its own clock.
class Simulation {
 public:
  Simulation(const CollectivePlan& plan, std::int64_t bytes, const CostModel& model)
      : plan_(plan),
        model_(model),
        run_(replay(plan, model.slots)),
        ranks_(plan.world_size),
        times_(plan.steps.size()),
        message_of_(plan.steps.size(), -1) {
    for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i)
      ranks_[plan.steps[i].rank].program.push_back(i);
    for (int chunk = 0; chunk < plan.num_chunks; ++chunk)
      chunk_bytes_.push_back(static_cast<double>(chunk_size(plan, chunk, bytes)));
    require(run_.finished, "plan_timeline: the plan '", plan.algorithm,
            "' must be proved; got a deadlock");
  }

  std::vector<StepTime> run() {
    for (int rank = 0; rank < plan_.world_size; ++rank) ready_.push_back(rank);
    for (;;) {
      while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        while (take_step(rank)) {
        }
      }
      if (first_bytes_.empty()) return std::move(times_);
      const auto [time, from, message] = first_bytes_.top();
      first_bytes_.pop();
      arrive(messages_[message], time);
    }
  }

 private:
  struct Rank {
    std::vector<int> program;
    std::size_t next = 0;
    std::size_t num_arrived = 0;  // terms of the next step, from the first
    double clock = 0;
  };
  struct Message {
    int from, to;
    std::vector<int> sends;  // steps
    double bytes = 0;
    double arrival = -1;  // of the last byte; -1 until it is known
  };
  // The times at which each message of a channel was taken; `num_sent` messages have set out.
  struct Channel {
    std::size_t num_sent = 0;
    std::vector<double> taken;
  };
  using FirstByte = std::tuple<double, int, int>;  // time, sender, message: ties go by rank

  std::int64_t pair(int from, int to) const { return std::int64_t{from} * plan_.world_size + to; }
  bool same_host(int a, int b) const {
    return a / model_.ranks_per_host == b / model_.ranks_per_host;
  }
  const LinkCost& link(const Message& message) const {
    return same_host(message.from, message.to) ? model_.within_host : model_.between_hosts;
  }

  // The time when a link is free again. Each rank has two ports: 2 * rank is the one inside its
  // host.
  double& way(std::unordered_map<std::int64_t, double>& ways, const Message& message, int rank) {
    if (model_.wiring == Wiring::wires) return ways[pair(message.from, message.to)];
    return ways[2 * std::int64_t{rank} + !same_host(message.from, message.to)];
  }

  bool take_step(int index_of_rank) {
    Rank& rank = ranks_[index_of_rank];
    if (rank.next == rank.program.size()) return false;
    const Step& step = plan_.steps[rank.program[rank.next]];
    if (is_send(step.op)) return send_message(rank);
    if (is_receive(step.op)) return receive(rank);
    StepTime& time = times_[rank.program[rank.next++]];
    time.start_s = rank.clock;
    rank.clock += chunk_bytes_[step.chunk] * model_.gamma_s_per_byte;
    time.end_s = rank.clock;
    return true;
  }

  // Sends all of a message at once.
  bool send_message(Rank& rank) {
    const Step& first = plan_.steps[rank.program[rank.next]];
    Channel& channel = channels_[pair(first.rank, first.peers[0])];
    const std::size_t slots = static_cast<std::size_t>(model_.slots);
    if (channel.num_sent >= slots) {
      if (channel.taken.size() <= channel.num_sent - slots) return false;
      rank.clock = std::max(rank.clock, channel.taken[channel.num_sent - slots]);
    }
    ++channel.num_sent;

    Message message{first.rank, first.peers[0], {}};
    do {
      const int index = rank.program[rank.next++];
      message_of_[index] = static_cast<int>(messages_.size());
      message.sends.push_back(index);
      message.bytes += chunk_bytes_[plan_.steps[index].chunk];
    } while (rank.next < rank.program.size() &&
             continues_message(first, plan_.steps[rank.program[rank.next]]));

    double start = rank.clock;
    if (model_.wiring != Wiring::reads) {
      double& way_out = way(ways_out_, message, message.from);
      start = std::max(start, way_out);
      way_out = start + message.bytes * link(message).beta_s_per_byte;
    }
    for (int send : message.sends) times_[send].start_s = start;
    first_bytes_.emplace(start + link(message).alpha_s, message.from,
                         static_cast<int>(messages_.size()));
    messages_.push_back(std::move(message));
    return true;
  }

  void arrive(Message& message, double first_byte) {
    double& way_in = way(ways_in_, message, message.to);
    message.arrival = std::max(first_byte, way_in) + message.bytes * link(message).beta_s_per_byte;
    way_in = message.arrival;
    for (int send : message.sends) times_[send].end_s = message.arrival;
    ready_.push_back(message.to);
  }

  // The rank's own term is always there.
  bool has_arrived(int send) const {
    return send < 0 || (message_of_[send] >= 0 && messages_[message_of_[send]].arrival >= 0);
  }

  bool receive(Rank& rank) {
    const int index = rank.program[rank.next];
    const Step& step = plan_.steps[index];
    const FewInts& sends = run_.partners[index];
    for (; rank.num_arrived < sends.size(); ++rank.num_arrived)
      if (!has_arrived(sends[rank.num_arrived])) return false;
    double start = rank.clock;
    for (int send : sends)
      if (send >= 0) start = std::max(start, messages_[message_of_[send]].arrival);
    rank.num_arrived = 0;
    ++rank.next;
    const double added = static_cast<double>(step.peers.size() - 1) * chunk_bytes_[step.chunk];
    rank.clock = start + added * model_.gamma_s_per_byte;
    times_[index] = {start, rank.clock};
    for (int send : run_.partners[index])
      if (send >= 0 && messages_[message_of_[send]].sends.back() == send) {
        channels_[pair(plan_.steps[send].rank, step.rank)].taken.push_back(rank.clock);
        ready_.push_back(plan_.steps[send].rank);
      }
    return true;
  }

  const CollectivePlan& plan_;
  const CostModel& model_;
  const Replay run_;
  std::vector<Rank> ranks_;          // (world_size)
  std::vector<StepTime> times_;      // (steps)
  std::vector<int> message_of_;      // (steps) -1 until sent
  std::vector<double> chunk_bytes_;  // (num_chunks)
  std::vector<Message> messages_;
  std::unordered_map<std::int64_t, Channel> channels_;  // by pair
  std::unordered_map<std::int64_t, double> ways_out_, ways_in_;
  std::priority_queue<FirstByte, std::vector<FirstByte>, std::greater<>> first_bytes_;
  std::vector<int> ready_;  // ranks that may be able to continue
};

}  // namespace

std::vector<StepTime> plan_timeline(const CollectivePlan& plan, std::int64_t bytes,
                                    const CostModel& model) {
  require(bytes >= 0 && model.slots >= 1 && model.ranks_per_host >= 1,
          "plan_timeline: bytes must not be negative, slots and ranks per host positive; got ",
          bytes, ", ", model.slots, " and ", model.ranks_per_host);
  if (const auto fault = plan_shape_check(plan))
    throw std::invalid_argument("plan_timeline: " + fault->text);
  return Simulation(plan, bytes, model).run();
}

double predicted_seconds(const CollectivePlan& plan, std::int64_t bytes, const CostModel& model) {
  double last = 0;
  for (const StepTime& time : plan_timeline(plan, bytes, model)) last = std::max(last, time.end_s);
  return last;
}

}  // namespace ringrad
