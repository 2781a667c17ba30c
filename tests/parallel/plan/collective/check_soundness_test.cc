// Compares the checker with an independent judge: a machine that really runs plans, on numbers,
// with the ranks in random order.
//
// The machine keeps one buffer per rank and only the staged copies. A receive reads the sender's
// memory at the moment it happens, which may be long after the send: a chunk that is overwritten
// during a zero-copy read gives a wrong number in some order. Rank r contributes 16^r, so that a
// contribution that is lost or added twice cannot hide, and memory without a value holds poison.
//
//  a plan that is proved must give the right numbers in every order tried
//
// The plans are all algorithms, damaged at random: two steps of a rank exchanged, a step moved, a
// field changed. Much damage is harmless; the checker may then accept, and the machine must agree.

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using Number = std::int64_t;
constexpr Number kPoison = std::int64_t{1} << 40;

Number contribution(int rank) { return Number{1} << (4 * rank); }

class NumberMachine {
 public:
  NumberMachine(const CollectivePlan& plan, testing::Random& random)
      : plan_(plan),
        random_(random),
        programs_(plan.world_size),
        next_(plan.world_size, 0),
        channels_(plan.world_size * plan.world_size),
        memory_(plan.world_size * plan.num_chunks, kPoison),
        staged_(memory_) {
    for (const Step& step : plan.steps) programs_[step.rank].push_back(&step);
    for (int rank = 0; rank < plan.world_size; ++rank)
      for (int chunk = 0; chunk < plan.num_chunks; ++chunk)
        if (begins_with(rank, chunk)) at(memory_, rank, chunk) = contribution(rank);
  }

  // True if every rank ran to its end with the promised numbers.
  bool run() {
    for (;;) {
      std::vector<int> ready;
      bool done = true;
      for (int rank = 0; rank < plan_.world_size; ++rank) {
        if (next_[rank] == programs_[rank].size()) continue;
        done = false;
        if (can_run(*programs_[rank][next_[rank]])) ready.push_back(rank);
      }
      if (done) return is_right();
      if (ready.empty()) return false;
      const int rank = ready[random_.integer(0, static_cast<std::int64_t>(ready.size()))];
      run_step(*programs_[rank][next_[rank]++]);
    }
  }

 private:
  Number& at(std::vector<Number>& memory, int rank, int chunk) {
    return memory[rank * plan_.num_chunks + chunk];
  }
  std::deque<const Step*>& channel(int from, int to) {
    return channels_[from * plan_.world_size + to];
  }

  bool begins_with(int rank, int chunk) const {
    switch (plan_.collective) {
      case Collective::all_gather:
      case Collective::all_to_all:
        return chunk / (plan_.num_chunks / plan_.world_size) == rank;
      case Collective::broadcast:
        return rank == plan_.root;
      default:
        return true;
    }
  }

  bool can_run(const Step& step) {
    if (!is_receive(step.op)) return true;
    for (int peer : step.peers)
      if (peer != step.rank && channel(peer, step.rank).empty()) return false;
    return true;
  }

  void run_step(const Step& step) {
    if (is_send(step.op)) return channel(step.rank, step.peers[0]).push_back(&step);
    Number& own = at(memory_, step.rank, step.chunk);
    if (step.op == StepOp::stage) {
      at(staged_, step.rank, step.chunk) = own;
      return;
    }
    Number total = 0;
    for (int peer : step.peers) {
      if (peer == step.rank) {
        total += own;
        continue;
      }
      const Step& sent = *channel(peer, step.rank).front();
      channel(peer, step.rank).pop_front();
      total += at(sent.op == StepOp::send_staged ? staged_ : memory_, peer, sent.chunk);
    }
    own = total;
  }

  bool is_right() {
    Number sum = 0;
    for (int rank = 0; rank < plan_.world_size; ++rank) sum += contribution(rank);
    for (const auto& channel : channels_)
      if (!channel.empty()) return false;
    for (int rank = 0; rank < plan_.world_size; ++rank)
      for (int chunk = 0; chunk < plan_.num_chunks; ++chunk)
        if (is_promised(plan_, rank, chunk) && at(memory_, rank, chunk) != wanted(chunk, sum))
          return false;
    return true;
  }

  Number wanted(int chunk, Number sum) const {
    switch (plan_.collective) {
      case Collective::all_gather:
      case Collective::all_to_all:
        return contribution(chunk / (plan_.num_chunks / plan_.world_size));
      case Collective::broadcast:
        return contribution(plan_.root);
      default:
        return sum;
    }
  }

  const CollectivePlan& plan_;
  testing::Random& random_;
  std::vector<std::vector<const Step*>> programs_;  // (world_size)
  std::vector<std::size_t> next_;                   // (world_size)
  std::vector<std::deque<const Step*>> channels_;   // (world_size, world_size)
  std::vector<Number> memory_;                      // (world_size, num_chunks)
  std::vector<Number> staged_;                      // (world_size, num_chunks)
};

bool is_right_in_orders(const CollectivePlan& plan, testing::Random& random, int orders) {
  for (int k = 0; k < orders; ++k)
    if (!NumberMachine(plan, random).run()) return false;
  return true;
}

void damage(CollectivePlan& plan, testing::Random& random) {
  auto& steps = plan.steps;
  const auto any = [&] { return random.integer(0, static_cast<std::int64_t>(steps.size())); };
  for (Step& step : steps) step.step = 0;  // only the order is judged
  const auto from = any(), to = any();
  switch (random.integer(0, 4)) {
    case 0:
      std::swap(steps[from], steps[to]);
      break;
    case 1: {
      const Step moved = steps[from];
      steps.erase(steps.begin() + from);
      steps.insert(steps.begin() + std::min<std::int64_t>(to, steps.size()), moved);
      break;
    }
    case 2:
      if (steps[from].op == StepOp::recv_reduce)
        std::swap(steps[from].peers.front(), steps[from].peers.back());
      else
        steps[from].op = steps[from].op == StepOp::send ? StepOp::send_staged : StepOp::send;
      if (steps[from].peers.empty()) steps.erase(steps.begin() + from);
      break;
    default:  // one more message and, sometimes, one more copy
      steps.insert(steps.begin() + to, {0, steps[from].rank, StepOp::stage, steps[from].chunk, {}});
  }
}

TEST(PlanCheckSoundnessTest, TheMachineAgreesWithEveryProof) {
  testing::Random random(1);
  int accepted = 0, rejected = 0, harmful = 0;
  for (Collective collective : kAllCollectives)
    for (int n : {2, 3, 4, 5})
      for_every_plan(collective, n, [&](const CollectivePlan& good) {
        if (good.steps.empty()) return;
        EXPECT_TRUE(is_right_in_orders(good, random, 3)) << good;
        for (int k = 0; k < 60; ++k) {
          CollectivePlan mutant = good;
          for (int times = random.integer(1, 4); times > 0; --times) damage(mutant, random);
          if (plan_check(mutant, 64)) {
            ++rejected;
            harmful += !is_right_in_orders(mutant, random, 3);
            continue;
          }
          ++accepted;
          ASSERT_TRUE(is_right_in_orders(mutant, random, 30)) << mutant;
        }
      });
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(rejected, 1000);
  EXPECT_GT(harmful, rejected / 2);  // the judge confirms most rejections
}

}  // namespace
}  // namespace ringrad
