// What a rank whose call failed does about ranks that stay inside the call. The memory and its
// ranks are made up.

#include "ringrad/parallel/comm/memory/rank_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/job/child_process.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_throws;
using Clock = std::chrono::steady_clock;

// Processes in states that the test sets. Expelled processes die, unless they are immortal.
class MadeUpMemory final : public GroupMemory {
 public:
  struct Rank {
    ProcessState state = ProcessState::running;
    bool is_immortal = false;
    std::string killed_because = {};
    Clock::time_point killed_at = {};
  };

  explicit MadeUpMemory(std::vector<Rank> ranks)
      : ranks(std::move(ranks)),
        shared_(RankGroup::shared_bytes(static_cast<int>(this->ranks.size()))) {
    RankGroup::make_shared(shared(), static_cast<int>(this->ranks.size()));
  }

  std::byte* shared() const override { return reinterpret_cast<std::byte*>(shared_.get()); }
  std::uintptr_t base_of(int) const override { return 0; }
  bool is_visible(const void*) const override { return true; }
  std::shared_ptr<std::byte> allocate(std::size_t, Where) override { return nullptr; }
  bool has_died(int rank) const override {
    ++num_looks;
    return ranks[rank].state == ProcessState::ended;
  }
  ProcessState state_of(int rank) const override { return ranks[rank].state; }
  void expel(int rank, const char* reason) noexcept override {
    ranks[rank].killed_because = reason;
    ranks[rank].killed_at = Clock::now();
    if (!ranks[rank].is_immortal) ranks[rank].state = ProcessState::ended;
  }
  bool is_one_process() const override { return false; }
  int num_processors() const override { return 1; }

  std::vector<Rank> ranks;
  mutable std::atomic<int> num_looks = 0;  // at processes

 private:
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  class Lines {
   public:
    explicit Lines(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1) {}
    Line* get() const { return const_cast<Line*>(lines_.data()); }

   private:
    std::vector<Line> lines_;
  };
  const Lines shared_;
};

// Ranks 1 and 2 stay inside a call that rank 0 leaves with an error. Returns once rank 0 is out.
class FailedCall {
 public:
  FailedCall(std::vector<MadeUpMemory::Rank> ranks, const GroupOptions& options)
      : memory(std::make_shared<MadeUpMemory>(std::move(ranks))) {
    const int n = static_cast<int>(memory->ranks.size());
    for (int r = 0; r < n; ++r)
      groups.push_back(std::make_unique<RankGroup>(r, n, memory, options));
    for (int r = 1; r < n; ++r)
      others.push_back(std::make_unique<RankGroup::Inside>(*groups[r], operation));
    try {
      const RankGroup::Inside own(*groups[0], operation);
      begin = Clock::now();
      groups[0]->fail_and_throw(operation, 0, "it failed");
    } catch (const CollectiveError&) {
    }
  }

  const Operation operation{};
  const std::shared_ptr<MadeUpMemory> memory;
  std::vector<std::unique_ptr<RankGroup>> groups;
  std::vector<std::unique_ptr<RankGroup::Inside>> others;
  Clock::time_point begin;
};

GroupOptions options_with(milliseconds verdict_time, milliseconds silence) {
  GroupOptions options;
  options.verdict_time = verdict_time;
  options.silence = silence;
  return options;
}

TEST(RankGroupTest, LimitsOfSeveralStoppedRanksRunTogether) {
  constexpr milliseconds kVerdictTime(6000);
  const MadeUpMemory::Rank stopped{.state = ProcessState::stopped};
  const FailedCall call({{}, stopped, stopped}, options_with(kVerdictTime, milliseconds(60'000)));
  const auto& ranks = call.memory->ranks;
  EXPECT_EQ(ranks[1].killed_because, "was stopped inside a failed call");
  EXPECT_EQ(ranks[2].killed_because, "was stopped inside a failed call");
  EXPECT_GE(ranks[1].killed_at - call.begin, kVerdictTime / 2);
  EXPECT_LT(ranks[2].killed_at - ranks[1].killed_at, kVerdictTime / 2);  // not in turn
}

// A debugger holds the rank, which continues when its user lets it.
TEST(RankGroupTest, ARankUnderADebuggerHasAsLongAsOneThatRuns) {
  constexpr milliseconds kSilence(500);
  for (const ProcessState state : {ProcessState::traced, ProcessState::running}) {
    const FailedCall call({{}, {.state = state}}, options_with(milliseconds(1), kSilence));
    EXPECT_EQ(call.memory->ranks[1].killed_because, "stayed inside a failed call");
    EXPECT_GE(call.memory->ranks[1].killed_at - call.begin, kSilence);
  }
}

TEST(RankGroupTest, OnlyRanksInsideACallAreShutOut) {
  FailedCall call({{}, {.state = ProcessState::stopped}, {.state = ProcessState::stopped}},
                  options_with(milliseconds(20), milliseconds(60'000)));
  for (auto& rank : call.memory->ranks) rank = {.state = ProcessState::stopped};
  call.others[1].reset();  // rank 2 is in no call
  call.groups[0]->shut_out({}, Where::current());
  EXPECT_EQ(call.memory->ranks[1].killed_because, "was stopped inside a failed call");
  EXPECT_EQ(call.memory->ranks[2].killed_because, "");
  call.groups[0]->shut_out(std::vector<int>{2}, Where::current());
  EXPECT_EQ(call.memory->ranks[2].killed_because,
            "was left out, and may have work queued on its GPU");
}

// The deadlines of two ranks pass at once, and both look before either has reported. The launcher
// would take a rank that blames no rank for the culprit.
TEST(RankGroupTest, TheRankThatReportsSecondBlamesTheSameRankAsTheFirst) {
  Pipe pipe = make_pipe(Where::current());
  const pid_t child = fork();
  if (child == 0) {
    const auto memory = std::make_shared<MadeUpMemory>(std::vector<MadeUpMemory::Rank>(3));
    RankGroup first(0, 3, memory, {}), second(1, 3, memory, {});
    try {
      first.fail_and_throw({}, 2, "rank 2 is late");
    } catch (const CollectiveError&) {
    }
    retract_report();  // each rank is a process, whose first report counts
    dup2(pipe.in.number(), kReportDescriptor);
    const std::string variable = report_variable(pipe.in);
    setenv(kReportVariable, variable.substr(variable.find('=') + 1).c_str(), 1);
    try {
      second.fail_and_throw({}, 2, "rank 2 is late for this one, too");
    } catch (const CollectiveError&) {
      _exit(0);
    }
    _exit(1);
  }
  pipe.in = Descriptor();  // so that reading ends where nothing was written
  EXPECT_EQ(reap_child(child), 0);
  EXPECT_EQ(read_report(pipe.out), 2);
}

// Each look is a system call per rank, and with hundreds of ranks all of them wait.
TEST(RankGroupTest, AWaitLooksAtTheProcessesOnceIn20Milliseconds) {
  constexpr int kRanks = 50;
  const auto memory = std::make_shared<MadeUpMemory>(std::vector<MadeUpMemory::Rank>(kRanks));
  GroupOptions options;
  options.deadline = milliseconds(300);
  RankGroup group(0, kRanks, memory, options);
  Operation operation{.call = {}, .rank = 0, .sequence = 1, .where = Where::current()};
  const auto begin = Clock::now();
  expect_throws<CollectiveError>([&] { group.wait(operation, 1, 1, 1); }, "every rank must arrive");
  const auto most = (Clock::now() - begin) / milliseconds(20) + 2;  // the first, and at the end
  EXPECT_LE(memory->num_looks, most * (kRanks - 1));
}

TEST(RankGroupTest, ARankThatDiesJustBeforeTheDeadlineIsNotCalledLate) {
  const auto memory = std::make_shared<MadeUpMemory>(std::vector<MadeUpMemory::Rank>(3));
  memory->ranks[2].state = ProcessState::ended;
  GroupOptions options;
  options.deadline = milliseconds(1);
  RankGroup group(0, 3, memory, options);
  Operation operation{.call = {}, .rank = 0, .sequence = 1, .where = Where::current()};
  expect_throws<CollectiveError>([&] { group.wait(operation, 1, 1, 1); },
                                 "got a failure of rank 2: it has died");
}

// The rank that is waited for, if it is stopped itself; and none that has left.
TEST(RankGroupTest, TheFirstStoppedRankIsOneThatStillMatters) {
  const auto memory = std::make_shared<MadeUpMemory>(std::vector<MadeUpMemory::Rank>(4));
  RankGroup group(0, 4, memory, {}), last(3, 4, memory, {});
  EXPECT_EQ(group.first_stopped(1), 1);
  for (const int r : {2, 3})
    memory->ranks[static_cast<std::size_t>(r)].state = ProcessState::stopped;
  EXPECT_EQ(group.first_stopped(1), 2);
  EXPECT_EQ(group.first_stopped(3), 3);
  last.leave();
  EXPECT_EQ(group.first_stopped(3), 2);
}

// The launcher must not take the rank that noticed for the culprit.
TEST(RankGroupTest, AFailureOfNobodyBlamesNobody) {
  Pipe pipe = make_pipe(Where::current());
  const pid_t child = fork();
  if (child == 0) {
    retract_report();  // of other tests
    dup2(pipe.in.number(), kReportDescriptor);
    const std::string variable = report_variable(pipe.in);
    setenv(kReportVariable, variable.substr(variable.find('=') + 1).c_str(), 1);
    const auto memory = std::make_shared<MadeUpMemory>(std::vector<MadeUpMemory::Rank>(2));
    RankGroup group(1, 2, memory, {});
    try {
      group.fail_and_throw({}, kNobody, "the calls differ");
    } catch (const CollectiveError&) {
      _exit(group.failed_rank() == 1 ? 0 : 1);  // the group is broken
    }
    _exit(1);
  }
  pipe.in = Descriptor();
  EXPECT_EQ(reap_child(child), 0);
  EXPECT_EQ(read_report(pipe.out), kNobody);
}

TEST(RankGroupTest, AProcessThatOutlivesItsKillIsAnError) {
  const FailedCall call({{}, {.state = ProcessState::stopped, .is_immortal = true}},
                        options_with(milliseconds(20), milliseconds(200)));
  expect_throws<CollectiveError>(
      [&] { call.groups[0]->shut_out({}, Where::current()); },
      "shrink: rank 1 must end within 0.2 s of SIGKILL; got a process that lives");
  expect_throws<CollectiveError>(
      [&] { call.groups[0]->shut_out(std::vector<int>{1}, Where::current()); },
      "rank 1 must end within 0.2 s of SIGKILL");
}

}  // namespace
}  // namespace ringrad
