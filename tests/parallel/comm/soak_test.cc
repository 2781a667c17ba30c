// Random faults, one after the other, each in a job of its own.
//
//     2 to 4 processes    random calls, results checked exactly, again and again
//     a fault             hits one of them, at a random moment from outside, or at a random call
//                         (fault_injection.h)
//     the others          get an error that names it, shrink(), and continue: exact results in the
//                         smaller group
//     after that          no process, descriptor or shared memory is left
//
// RINGRAD_SOAK_FAULTS sets their number (the target soak_200_test has 200), RINGRAD_SOAK_SEED the
// seed. The seed is fixed by default, and printed.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/parallel/comm/random_calls.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Processes;
using testing::Random;

std::int64_t number_of_environment(const char* name, std::int64_t otherwise) {
  const char* wanted = std::getenv(name);
  return wanted ? std::atoll(wanted) : otherwise;
}

struct Fault {
  int world_size, victim;
  std::string planned;                // a plan for the victim, without its rank; or
  int signal = 0;                     // a signal from outside,
  std::chrono::microseconds after{};  // sent this long after all have joined
  bool stops = false;
  std::uint64_t calls_seed;
  ProcessGroupOptions options;

  std::string text() const {
    return concat(
        planned.empty() ? concat("signal ", signal, " after ", after.count(), " us") : planned,
        " on rank ", victim, " of ", world_size, ", calls of seed ", calls_seed);
  }
};

Fault draw_fault(Random& random, std::int64_t number) {
  Fault fault;
  fault.world_size = static_cast<int>(random.integer(2, 5));
  fault.victim = static_cast<int>(random.integer(0, fault.world_size));
  fault.stops = number % 10 == 9;  // these take as long as their deadlines
  fault.calls_seed = static_cast<std::uint64_t>(random.integer(0, 1 << 30));
  fault.after = std::chrono::microseconds(random.integer(0, 20'000));
  if (fault.stops) {
    fault.options.deadline = testing::kShortDeadline;
    if (number % 20 == 9)
      fault.signal = SIGSTOP;
    else
      fault.planned = "stop";
  } else {
    const int kind = static_cast<int>(random.integer(0, 6));
    if (kind < 3)
      fault.signal = std::array{SIGKILL, SIGTERM, SIGABRT}[kind];
    else
      fault.planned = std::array{"kill", "exit", "abort"}[kind - 3];
  }
  if (!fault.planned.empty())
    fault.planned += concat(':', fault.victim, "@call=", random.integer(2, 200));
  fault.options.segments = static_cast<int>(random.integer(0, 4));
  fault.options.all_reduce = std::array{"ring", "two_shot", "halving_doubling", "chain",
                                        "tree"}[static_cast<std::size_t>(random.integer(0, 5))];
  return fault;
}

// A call large enough to be disturbed in its middle, on memory that all ranks see.
void reduce_in_place(Communicator& comm) {
  constexpr std::int64_t kCount = 50'000;
  const Tensor x = comm.empty_shared({kCount});
  for (std::int64_t i = 0; i < kCount; ++i)
    x.data<float>()[i] = static_cast<float>(i % 1000 + comm.rank());
  comm.all_reduce(x);
  const int n = comm.world_size();
  std::int64_t num_wrong = 0;
  for (std::int64_t i = 0; i < kCount; ++i)
    num_wrong += x.data<float>()[i] != static_cast<float>(n * (i % 1000) + n * (n - 1) / 2);
  EXPECT_EQ(num_wrong, 0) << "of a shared all_reduce, rank " << comm.rank() << " of " << n;
}

// Makes calls until a result is wrong or a call throws.
void make_calls(Communicator& comm, std::uint64_t seed, int num_calls) {
  Random random(seed);
  for (int k = 0; k < num_calls && !::testing::Test::HasFailure(); ++k) {
    perform(comm, testing::draw(random, comm.world_size()));
    if (random.chance(0.2)) reduce_in_place(comm);
  }
}

std::string live_through(Communicator& comm, const Fault& fault) {
  const bool is_victim = comm.rank() == fault.victim;
  try {
    make_calls(comm, fault.calls_seed, 1'000'000);
    return ::testing::Test::HasFailure() ? "a result is wrong" : "no error";
  } catch (const CollectiveError& error) {
    if (!fault.stops && comm.failed_rank() != fault.victim) return error.what();
  }
  try {
    const auto rest = comm.shrink();
    if (is_victim) return "was not evicted";
    if (rest->world_size() != fault.world_size - 1)
      return concat(rest->world_size(), " ranks go on");
    make_calls(*rest, fault.calls_seed + 1, 30);
    rest->barrier();  // a rank that left earlier would look as if it had failed
    return ::testing::Test::HasFailure() ? "a result in the smaller group is wrong" : "";
  } catch (const CollectiveError& error) {
    const std::string text = error.what();
    const bool is_evicted = is_victim && text.find("was late, and the others") != text.npos;
    return fault.stops && is_evicted ? "" : text;
  }
}

void suffer(const Fault& fault) {
  if (!fault.planned.empty()) setenv("RINGRAD_INJECT", fault.planned.c_str(), 1);
  Processes processes(fault.world_size, fault.options,
                      [&](Communicator& comm) { return live_through(comm, fault); });
  unsetenv("RINGRAD_INJECT");
  if (fault.planned.empty()) {
    processes.wait_until_all_joined();
    std::this_thread::sleep_for(fault.after);
    processes.send_signal(fault.victim, fault.signal);
  }
  for (int rank = 0; rank < fault.world_size; ++rank)
    if (rank != fault.victim) {
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    }
  if (fault.stops) processes.send_signal(fault.victim, SIGCONT);
  const int code = processes.wait(fault.victim);
  if (fault.stops)
    EXPECT_TRUE(code == -SIGKILL || code == 0)
        << "the rank that was stopped must be killed inside a call, or else find itself left out";
  else
    EXPECT_NE(code, 0) << "of the rank that was to fail";
}

// Traces that jobs must not leave: children of this process, its descriptors and maps, and names in
// shared memory.
std::set<std::string> traces() {
  std::set<std::string> traces;
  for (const std::string& held : testing::held_of_system()) traces.insert(held);
  std::ifstream children(concat("/proc/self/task/", getpid(), "/children"));
  for (std::string child; children >> child;) traces.insert("process " + child);
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (file.path().string().find("ringrad") != std::string::npos) traces.insert(file.path());
  return traces;
}

TEST(SoakTest, RanksFailAtRandomAndTheOthersGoOn) {
  const std::int64_t num_faults = number_of_environment("RINGRAD_SOAK_FAULTS", 20);
  const std::int64_t seed = number_of_environment("RINGRAD_SOAK_SEED", 20240229);
  ASSERT_GT(num_faults, 0);
  std::printf("seed %lld, %lld faults\n", static_cast<long long>(seed),
              static_cast<long long>(num_faults));
  std::fflush(stdout);  // children would otherwise copy the unwritten output
  Random random(static_cast<std::uint64_t>(seed));
  const auto before = traces();
  for (std::int64_t number = 0; number < num_faults && !HasFailure(); ++number) {
    const Fault fault = draw_fault(random, number);
    SCOPED_TRACE(concat("fault ", number, ": ", fault.text()));
    suffer(fault);
    EXPECT_EQ(traces(), before);
  }
}

}  // namespace
}  // namespace ringrad
