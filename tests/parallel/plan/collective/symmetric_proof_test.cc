// The proof by symmetry against the proof in full: of every plan, and of plans that are damaged in
// the same way at all ranks, so that they stay symmetric. Both must give the same verdict.
//
// The last test proves plans of 1,024 ranks rank by rank. It counts the bytes that are allocated.

#include "ringrad/parallel/plan/collective/symmetric_proof.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/symmetry.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/testing.h"

namespace {

std::size_t num_bytes = 0, most_bytes = 0;  // allocated now, and at most

}  // namespace

// Not inlined: otherwise GCC warns that free() is called on the result of `new`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (!memory) throw std::bad_alloc();
  num_bytes += malloc_usable_size(memory);
  most_bytes = std::max(most_bytes, num_bytes);
  return memory;
}
// Standard algorithms take their buffers by this one; AddressSanitizer's would not go with free().
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  num_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace ringrad {
namespace {

// A plan by ranks, which notes whether it was asked for as a whole.
class ByRank {
 public:
  explicit ByRank(const CollectivePlan& plan) : header_(plan), lists_(plan.world_size) {
    for (const Step& step : plan.steps) lists_[step.rank].push_back(step);
    header_.steps.clear();
  }

  std::vector<Step>& list(int rank) { return lists_[rank]; }

  CollectivePlan operator()(int only_rank) {
    CollectivePlan plan = header_;
    plan.only_rank = only_rank;
    was_whole_ = was_whole_ || only_rank == kAllRanks;
    for (int rank : plan.ranks())
      plan.steps.insert(plan.steps.end(), lists_[rank].begin(), lists_[rank].end());
    return plan;
  }

  // "proved", or the fault; and "proved by symmetry".
  std::string verdict(int slots) {
    was_whole_ = false;
    const auto example = plan_check([this](int rank) { return (*this)(rank); }, slots);
    return example ? name(example->fault) : was_whole_ ? "proved" : "proved by symmetry";
  }
  // Without the list of a rank, there is no symmetry to be found.
  std::string verdict_in_full(int slots) {
    const auto example = plan_check(
        [this](int rank) { return rank == kAllRanks ? (*this)(rank) : CollectivePlan(); }, slots);
    return example ? name(example->fault) : "proved";
  }

 private:
  CollectivePlan header_;
  std::vector<std::vector<Step>> lists_;
  bool was_whole_ = false;
};

// True for what the symmetries of symmetry.h cover, for two ranks or more.
bool is_symmetric(const CollectivePlan& plan) {
  if (has_root(plan.collective) || plan.collective == Collective::all_to_all) return false;
  if (plan.algorithm == "chain" || plan.algorithm == "tree") return false;
  if (plan.algorithm == "leaders")  // all ranks lead
    return plan == make_plan(plan.collective, "leaders", plan.world_size);
  const bool halves = plan.algorithm == "halving_doubling" || plan.algorithm == "halving" ||
                      plan.algorithm == "doubling";
  return !halves || std::has_single_bit(static_cast<unsigned>(plan.world_size));
}

TEST(SymmetricProofTest, ARanksStepsAreThoseOfTheWholePlan) {
  for (Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective))
      for (int n : {1, 2, 3, 4, 6, 8, 12})
        for (PlanOptions options : {PlanOptions{},
                                    {.segments = 3, .root = n - 1},
                                    {.ranks_per_host = n % 2 == 0 ? n / 2 : 1}}) {
          ByRank whole(make_plan(collective, algorithm, n, options));
          for (int rank = 0; rank < n; ++rank) {
            options.only_rank = rank;
            EXPECT_EQ(make_plan(collective, algorithm, n, options), whole(rank))
                << algorithm << ' ' << name(collective) << ", rank " << rank << " of " << n;
          }
        }
}

TEST(SymmetricProofTest, TheOnlyRankIsOneOfTheRanks) {
  for (const auto& algorithm : algorithm_names(Collective::all_reduce))
    for (int rank : {-2, 4})
      EXPECT_THROW(make_plan(Collective::all_reduce, algorithm, 4, {.only_rank = rank}),
                   std::invalid_argument)
          << algorithm << ", rank " << rank;
}

TEST(SymmetricProofTest, ProvesEveryPlanInWhichRanksDoTheSame) {
  for (Collective collective : kAllCollectives)
    for (int n = 2; n <= 33; ++n)
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        if (has_root(collective) && plan.root > 0) return;
        const std::string title = plan.algorithm + ' ' + name(collective) + ", " +
                                  std::to_string(n) + " ranks, " + std::to_string(plan.num_chunks) +
                                  " chunks";
        EXPECT_EQ(ByRank(plan).verdict(1), is_symmetric(plan) ? "proved by symmetry" : "proved")
            << title;
        EXPECT_EQ(ByRank(plan).verdict_in_full(1), "proved") << title;
      });
}

// Each rank sends two messages to each other rank before it receives any.
TEST(SymmetricProofTest, ADeadlockMayDependOnTheNumberOfSlots) {
  CollectivePlan plan = empty_plan(Collective::all_gather, "test", 3, 6);
  for (int r = 0; r < 3; ++r) {
    const int others[] = {(r + 1) % 3, (r + 2) % 3};
    for (int slot : {0, 1})
      for (int other : others) plan.send(slot, r, 2 * r + slot, other);
    for (int slot : {0, 1})
      for (int other : others) plan.recv(1, r, 2 * other + slot, other);
  }
  EXPECT_EQ(ByRank(plan).verdict(1), "deadlock");
  EXPECT_EQ(ByRank(plan).verdict(2), "proved by symmetry");
}

TEST(SymmetricProofTest, RanksThatEachBeginASumWithThemselvesDoNotAgree) {
  CollectivePlan plan = make_plan(Collective::all_reduce, "one_shot", 4);
  EXPECT_EQ(ByRank(plan).verdict(1), "proved by symmetry");
  for (Step& step : plan.steps)
    if (step.op == StepOp::recv_reduce)
      std::rotate(step.peers.begin(), step.peers.begin() + step.rank, step.peers.end());
  EXPECT_EQ(ByRank(plan).verdict(1), "wrong_result");
}

TEST(SymmetricProofTest, ACopyKeepsWhatItsChunkHeldWhenItWasStaged) {
  CollectivePlan plan = make_plan(Collective::all_reduce, "one_shot", 4);
  for (int r = 0; r < 4; ++r) {
    plan.send_staged(1, r, 0, (r + 1) % 4);
    plan.recv(1, r, 0, (r + 3) % 4);
  }
  EXPECT_EQ(ByRank(plan).verdict(1), "wrong_result");
}

// --- Damage ---

// Another rank or chunk, a fixed way from each: added in its block of world_size numbers or, if
// `flips`, by flipping bits.
int moved(int number, int by, int world_size, bool flips) {
  const int place = number % world_size;
  return number - place + (flips ? place ^ by : (place + by) % world_size);
}

// Changes every rank's list in the same place in the same way.
void damage(ByRank& plan, int n, int num_chunks, bool flips, testing::Random& random) {
  const auto length = static_cast<std::int64_t>(plan.list(0).size());
  const auto from = random.integer(0, length), to = random.integer(0, length);
  const int kind = static_cast<int>(random.integer(0, 9));
  const int by = static_cast<int>(random.integer(1, n));
  const StepOp op = std::vector{StepOp::send, StepOp::recv, StepOp::recv_reduce, StepOp::stage,
                                StepOp::send_staged}[random.integer(0, 5)];
  for (int rank = 0; rank < n; ++rank) {
    std::vector<Step>& list = plan.list(rank);
    Step& step = list[from];
    switch (kind) {
      case 0:
        std::swap(step, list[to]);
        break;
      case 1: {
        const Step gone = step;
        list.erase(list.begin() + from);
        if (to % 2 == 0) list.insert(list.begin() + std::min(to, length - 1), gone);
        break;
      }
      case 2:
        list.insert(list.begin() + to, Step(step));
        break;
      case 3:
        if (num_chunks % n == 0) step.chunk = moved(step.chunk, by, n, flips);
        break;
      case 4:
        if (!step.peers.empty()) step.peers[0] = moved(step.peers[0], by, n, flips);
        break;
      case 5:
        if (op == StepOp::stage) step.peers = {};
        if (op == StepOp::recv_reduce && step.peers.size() == 1) step.peers = {step.peers[0], rank};
        step.op = op;
        break;
      case 6:
        if (step.op == StepOp::recv_reduce && !step.peers.empty())
          step.peers = std::vector<int>(step.peers.begin(), step.peers.end() - 1);
        break;
      case 7: {  // everything from there on again, in later time slots
        std::vector<Step> again(list.begin() + from, list.end());
        const int last = list.back().step;
        for (Step& later : again) later.step += last + 1;
        list.insert(list.end(), again.begin(), again.end());
        break;
      }
      default:  // one more copy
        list.insert(list.begin() + to, {step.step, rank, StepOp::stage, step.chunk, {}});
    }
    if (to % 3 == 0)
      for (Step& other : list) other.step = 0;  // only the order is judged
    if (list.empty()) list.push_back({0, rank, StepOp::stage, 0, {}});
  }
}

// What is proved by symmetry must be proved in full. Where a plan is symmetric, the reverse holds
// too, but for equal sums that several ranks make; hardly any damage leads to these.
TEST(SymmetricProofTest, AgreesWithTheProofInFullOnDamagedPlans) {
  testing::Random random(1);
  std::map<std::string, int> verdicts;
  for (Collective collective : kAllCollectives)
    for (int n : {2, 3, 4, 5, 8})
      for_every_plan(collective, n, [&](const CollectivePlan& good) {
        if (!is_symmetric(good)) return;
        const bool flips = good.algorithm.find("ing") != std::string::npos &&
                           good.algorithm.find("ring") == std::string::npos;
        for (int k = 0; k < 200; ++k) {
          ByRank plan(good);
          for (auto times = random.integer(1, 3); times > 0; --times)
            damage(plan, n, good.num_chunks, flips, random);
          const int slots = static_cast<int>(random.integer(1, 3));
          std::string verdict = plan.verdict(slots);
          const std::string in_full = plan.verdict_in_full(slots);
          ++verdicts[verdict];
          if (verdict == "proved by symmetry") verdict = "proved";
          ASSERT_EQ(verdict, in_full) << plan(kAllRanks);
        }
      });
  for (const PlanFault fault : {PlanFault::malformed, PlanFault::deadlock, PlanFault::unmatched,
                                PlanFault::overwritten_read, PlanFault::no_value,
                                PlanFault::duplicate, PlanFault::wrong_result})
    EXPECT_GT(verdicts[name(fault)], 100) << name(fault);
  EXPECT_GT(verdicts["proved by symmetry"], 1000);
  EXPECT_LT(verdicts["proved"], verdicts["proved by symmetry"] / 20);
}

// --- Many ranks ---

#ifdef RINGRAD_SANITIZE
constexpr int kManyRanks = 128;
#else
constexpr int kManyRanks = 1024;
#endif

// Steps grow like the square of the ranks: the bidirectional ring's 8.4 million take 256 MiB.
TEST(SymmetricProofTest, ProvesPlansOf1024RanksInLittleMemory) {
  for (Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (const std::string& algorithm : algorithm_names(collective))
      for (int ranks_per_host : {1, 8}) {
        if (ranks_per_host > 1 && algorithm != "hierarchical") continue;
        const std::size_t before = most_bytes = num_bytes;
        const auto example = plan_check([&](int rank) {
          return make_plan(collective, algorithm, kManyRanks,
                           {.ranks_per_host = ranks_per_host, .only_rank = rank});
        });
        EXPECT_FALSE(example) << algorithm << ' ' << name(collective) << ": " << *example;
        EXPECT_LT(most_bytes - before, std::size_t{24} << 20)
            << algorithm << ' ' << name(collective);
      }
}

// A renaming for each of a million ranks would take terabytes, however few steps there are.
TEST(SymmetricProofTest, OfVeryManyRanksNoSymmetryIsSought) {
  constexpr int kRanks = 1 << 20;
  CollectivePlan plan = empty_plan(Collective::all_reduce, "test", kRanks, 1);
  plan.stage(0, 0, 0);
  bool was_asked = false;
  const auto plan_of = [&](int) {
    was_asked = true;
    return CollectivePlan();
  };
  EXPECT_FALSE(find_symmetry(plan, plan_of));
  EXPECT_FALSE(was_asked);
}

}  // namespace
}  // namespace ringrad
