// Ranks over Gloo: threads for tests of results, processes for tests in which a process ends.

#include "ringrad/parallel/comm/network/gloo_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/forked_child.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::error_of;
using testing::expect_contains;
using testing::expect_throws;
using Clock = std::chrono::steady_clock;

// Runs the body on threads that are ranks; anything that it throws is a failure.
void on_threads(int world_size, const std::function<void(Communicator&)>& body,
                const TransportOptions& options = {}) {
  const StoreServer server;
  std::latch all_joined(world_size);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.emplace_back([&, rank] {
      std::unique_ptr<Communicator> comm;
      try {
        Store store(server.address());
        comm = join_gloo_group(store, "test", rank, world_size, options);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      all_joined.arrive_and_wait();  // tests may break the group only after this
      try {
        if (comm) body(*comm);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (std::thread& rank : ranks) rank.join();
}

// --- Results ---

TEST(GlooGroupTest, DoesWhatEveryBackendDoes) {
  for (const int n : {1, 2, 3}) on_threads(n, testing::run_backend_suite);
}

TEST(GlooGroupTest, IsExactForUpToEightRanks) {
  for (const int n : {4, 5, 6, 7, 8})
    on_threads(n, [](Communicator& comm) {
      for (const Collective collective : kAllCollectives)
        for (const std::int64_t count : {0, 1, 3000})
          testing::expect_exact(comm, {collective, DType::bfloat16, ReduceOp::max, 1, count});
      testing::expect_split(comm);
    });
}

TEST(GlooGroupTest, AddsInRankOrder) {
  for (const int n : {2, 3}) on_threads(n, testing::expect_canonical_bits);
}

// The library counts in few bits here: data is cut into pieces, and results stay the same.
TEST(GlooGroupTest, CutsWhatIsTooLarge) {
  TransportOptions options;
  for (const std::size_t largest : {64, 300}) {
    options.largest_piece = largest;
    on_threads(
        3,
        [](Communicator& comm) {
          for (const Collective collective : kAllCollectives)
            for (const DType dtype : {DType::float64, DType::float16, DType::bool_})
              testing::expect_exact(comm, {collective, dtype, ReduceOp::max, 2, 101});
          testing::expect_any_place(comm);
          testing::expect_messages(comm);
        },
        options);
  }
  options.largest_piece = 1 << 14;
  on_threads(3, testing::expect_canonical_bits, options);
}

TEST(GlooGroupTest, ALateRankIsNamed) {
  TransportOptions options;
  options.deadline = testing::kShortDeadline;
  for (const int n : {2, 4}) on_threads(n, testing::expect_late_rank_named, options);
}

TEST(GlooGroupTest, ARankThatHasLeftIsNotWaitedFor) {
  on_threads(3, [](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 2 ? -1 : 0);
    auto all = comm.split(0);
    if (comm.rank() == 2)
      all.reset();
    else
      expect_contains(error_of([&] { all->barrier(); }), "rank 2, which has left the group");
  });
}

TEST(GlooGroupTest, AMessageOfAnotherSizeIsBlamedOnNobody) {
  on_threads(2, [](Communicator& comm) {
    if (comm.rank() == 0) comm.send(ones({4}), 1);
    if (comm.rank() == 1)
      expect_throws<CollectiveError>([&] { comm.recv(ones({5}), 0); }, "the message must be");
    while (comm.failed_rank() < 0) std::this_thread::yield();
    EXPECT_EQ(comm.failed_rank(), comm.rank());  // where the culprit is unknown
    expect_contains(error_of([&] { comm.barrier(); }), "got a failure of an unknown rank: recv(");
  });
}

TEST(GlooGroupTest, ADeadlineMayBeForever) {
  TransportOptions options;
  options.deadline = std::chrono::nanoseconds::max();
  on_threads(2, testing::expect_sum_works, options);
}

TEST(GlooGroupTest, CountersMayPass32Bits) {
  TransportOptions options;
  options.deadline = milliseconds(5000);
  options.first_count = testing::kBeforeWrap;
  on_threads(3, testing::expect_counters_wrap, options);
}

TEST(GlooGroupTest, SurvivorsGoOn) {
  on_threads(4, [](Communicator& comm) {
    if (comm.rank() == 1) return comm.abort("enough");
    EXPECT_THROW(comm.barrier(), CollectiveError);
    const auto rest = comm.shrink();
    EXPECT_EQ(rest->world_size(), 3);
    EXPECT_EQ(rest->rank(), comm.rank() - (comm.rank() > 1));
    testing::expect_sum_works(*rest);
  });
}

TEST(GlooGroupTest, AWholeGroupDoesNotShrink) {
  on_threads(2, [](Communicator& comm) {
    expect_throws<CollectiveError>([&] { comm.shrink(); }, "the group must have failed");
    comm.barrier();
  });
}

// --- A process ends ---

// Reduces until there is an error, which must name rank 1 in time; then the other ranks continue.
std::string reduce_until_rank_1_is_lost(Communicator& comm, milliseconds deadline) {
  const Tensor x = ones({100'000});
  auto begin = Clock::now();
  std::string error = error_of([&] {
    for (;; begin = Clock::now()) comm.all_reduce(x, ReduceOp::max);
  });
  if (Clock::now() - begin > deadline + testing::kPatience) return "late: " + error;
  if (error.find("all_reduce(max, float32, 100000 elements) #") != 0 ||
      error.find("every rank must take part; got no sign of life from rank 1, which died or was "
                 "stopped") == std::string::npos)
    return error;
  if (comm.failed_rank() != 1) return "another rank is blamed";
  testing::expect_sum_works(*comm.shrink());
  return "";
}

testing::Join join_with(milliseconds deadline) {
  return [deadline](Store& store, int rank, int world_size) {
    TransportOptions options;
    options.deadline = deadline;
    return join_gloo_group(store, "test", rank, world_size, options);
  };
}

TEST(GlooGroupTest, ARankThatEndsIsNamedByTheOthers) {
  constexpr milliseconds kDeadline(1000);
  for (const int how : {SIGKILL, 0}) {
    testing::Processes processes(3, join_with(kDeadline), [how](Communicator& comm) {
      if (comm.rank() != 1) return reduce_until_rank_1_is_lost(comm, kDeadline);
      for (int i = 0; i < 3; ++i) comm.all_reduce(ones({100'000}), ReduceOp::max);
      if (how > 0) raise(how);
      _exit(0);
    });
    EXPECT_EQ(processes.wait(0), 0);
    EXPECT_EQ(processes.wait(2), 0);
    EXPECT_EQ(processes.wait(1), -how);
  }
}

TEST(GlooGroupTest, ARankThatIsKilledAnywhereIsNamedByTheOthers) {
  constexpr milliseconds kDeadline(5000);
  testing::Random random(1);
  for (int i = 0; i < 3; ++i) {
    testing::Processes processes(3, join_with(kDeadline), [](Communicator& comm) {
      return reduce_until_rank_1_is_lost(comm, kDeadline);
    });
    processes.wait_until_all_joined();
    std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 20'000)));
    processes.send_signal(1, SIGKILL);
    EXPECT_EQ(processes.wait(0), 0);
    EXPECT_EQ(processes.wait(2), 0);
    EXPECT_EQ(processes.wait(1), -SIGKILL);
  }
}

TEST(GlooGroupTest, AStoppedRankIsNamedByTheOthersAndFindsItselfEvicted) {
  constexpr milliseconds kDeadline = testing::kShortDeadline;
  testing::Processes processes(3, join_with(kDeadline), [](Communicator& comm) -> std::string {
    if (comm.rank() != 1) return reduce_until_rank_1_is_lost(comm, kDeadline);
    const Tensor x = ones({100'000});
    for (int i = 0; i < 3; ++i) comm.all_reduce(x, ReduceOp::max);
    raise(SIGSTOP);
    const std::string error = error_of([&] {
      for (;;) comm.all_reduce(x, ReduceOp::max);
    });
    expect_contains(error,
                    "on rank 1: the group must be whole; got a failure of rank 1: all_reduce");
    for (int call = 0; call < 2; ++call)
      expect_contains(error_of([&] { comm.shrink(); }), "rank 1 was late, and the others have");
    return "";
  });
  for (const int rank : {0, 2}) EXPECT_EQ(processes.wait(rank), 0);
  processes.send_signal(1, SIGCONT);
  EXPECT_EQ(processes.wait(1), 0);
}

TEST(GlooGroupTest, AForkedChildGetsAnError) {
  testing::Processes processes(2, join_with(testing::kPatience), [](Communicator& comm) {
    testing::expect_forked_child_refused(comm);
    return std::string();
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

TEST(GlooGroupTest, AForkedChildThatDestroysItsCopyDoesNotLeave) {
  testing::Processes processes(2, join_with(testing::kPatience), [](Communicator& comm) {
    auto part = comm.split(0);
    if (comm.rank() == 1) {
      const pid_t child = fork();
      if (child == 0) {
        part.reset();
        _exit(0);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    comm.barrier();
    EXPECT_EQ(part->failed_rank(), -1);
    testing::expect_sum_works(*part);
    return std::string();
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

// This holds for any group in which they fail.
TEST(GlooGroupTest, ASubgroupNamesRanksByTheirNumbersInTheJob) {
  testing::Processes processes(4, join_with(milliseconds(5000)),
                               [](Communicator& comm) -> std::string {
                                 const auto pair = comm.split(comm.rank() / 2);
                                 if (comm.rank() == 3) raise(SIGKILL);
                                 if (comm.rank() != 2) return "";
                                 expect_contains(error_of([&] { pair->barrier(); }),
                                                 "on rank 2: every rank must take part; got no "
                                                 "sign of life from rank 3, which");
                                 EXPECT_EQ(pair->failed_rank(), 1);
                                 return "";
                               });
  EXPECT_EQ(processes.wait(3), -SIGKILL);
  for (const int rank : {0, 1, 2}) EXPECT_EQ(processes.wait(rank), 0);
}

// Rank 2 stops for as long as a loaded machine might keep it waiting. It is not dead, and
// continues.
TEST(GlooGroupTest, ARankThatIsSlowToAnswerIsNotBlamed) {
  constexpr milliseconds kDeadline(12'000);
  testing::Processes processes(3, join_with(kDeadline), [](Communicator& comm) -> std::string {
    comm.barrier();
    if (comm.rank() == 1) raise(SIGKILL);
    if (comm.rank() == 2) raise(SIGSTOP);
    const std::string error = error_of([&] { comm.barrier(); });
    expect_contains(error, "got no sign of life from rank 1, which");
    EXPECT_EQ(comm.failed_rank(), 1);
    const auto rest = comm.shrink();
    EXPECT_EQ(rest->world_size(), 2);
    testing::expect_sum_works(*rest);
    return "";
  });
  EXPECT_EQ(processes.wait(1), -SIGKILL);
  processes.wait_until_stopped(2);
  std::this_thread::sleep_for(milliseconds(1500));  // rank 0 asks, and gets no answer
  processes.send_signal(2, SIGCONT);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

// A rank that computes is not dead.
TEST(GlooGroupTest, ABusyRankIsNotBlamed) {
  testing::Processes processes(3, join_with(milliseconds(5000)),
                               [](Communicator& comm) -> std::string {
                                 if (comm.rank() == 1) raise(SIGKILL);
                                 if (comm.rank() == 2)
                                   while (comm.failed_rank() < 0) {  // busy
                                   }
                                 const std::string error = error_of([&] { comm.barrier(); });
                                 expect_contains(error, "got no sign of life from rank 1,");
                                 return "";
                               });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

// The lost rank's process also serves the store, so no rank can be asked.
TEST(GlooGroupTest, WhereTheStoreIsGoneTooTheErrorSaysSo) {
  auto server = std::make_unique<StoreServer>();
  Store store(server->address());
  std::vector<std::thread> ranks;
  std::vector<std::unique_ptr<Communicator>> comms(2);
  for (int rank : {0, 1})
    ranks.emplace_back([&, rank] {
      Store own = store.another(milliseconds(5000));
      TransportOptions options;
      options.deadline = testing::kShortDeadline;
      comms[rank] = join_gloo_group(own, "test", rank, 2, options);
    });
  for (std::thread& rank : ranks) rank.join();
  server.reset();
  std::thread peer([&] { testing::expect_sum_works(*comms[1]); });
  testing::expect_sum_works(*comms[0]);  // without failures, no rank needs the store
  peer.join();
  const auto begin = Clock::now();
  const std::string error = error_of([&] { comms[0]->barrier(); });
  EXPECT_LT(Clock::now() - begin, testing::kPatience);
  expect_contains(error, "barrier() #4 on rank 0: the ranks must find out who failed; got ");
  expect_contains(error, "and then: store: the server at 127.0.0.1:");
}

// As when a cable is cut, connections stay open and no data arrives. Each rank waits for the store
// only once, half of verdict_time; the thread that looks is waiting when the deadline passes.
TEST(GlooGroupTest, AStoreThatIsSilentIsWaitedForOnce) {
  constexpr milliseconds kDeadline(1500), kVerdictTime(10'000);
  const testing::StoreProcess server;
  TransportOptions options;
  options.deadline = kDeadline;
  options.verdict_time = kVerdictTime;
  std::vector<std::thread> ranks;
  std::vector<std::unique_ptr<Communicator>> comms(2);
  for (int rank : {0, 1})
    ranks.emplace_back([&, rank] {
      Store own(server.address());
      comms[rank] = join_gloo_group(own, "test", rank, 2, options);
    });
  for (std::thread& rank : ranks) rank.join();
  server.send_signal(SIGSTOP);
  const auto begin = Clock::now();
  const std::string error = error_of([&] { comms[0]->barrier(); });
  EXPECT_LT(Clock::now() - begin, kDeadline + kVerdictTime * 4 / 5);
  expect_contains(error, "barrier() #2 on rank 0: the ranks must find out who failed; got ");
  expect_contains(error, "and then: store: ");
  server.send_signal(SIGCONT);
}

// --- Joining ---

TEST(GlooGroupTest, ARankThatNeverComesIsNamed) {
  const StoreServer server;
  Store store(server.address(), milliseconds(100));
  expect_throws<CollectiveError>([&] { join_gloo_group(store, "lonely", 0, 2); },
                                 "\"lonely/ranks/1\" must be set within 0.1 s; got nothing");
}

TEST(GlooGroupTest, RefusesRanksThatDoNotFit) {
  const StoreServer server;
  Store store(server.address(), milliseconds(100));
  store.set("odd/ranks/1", "3");
  expect_throws<CollectiveError>([&] { join_gloo_group(store, "odd", 0, 2); },
                                 "all ranks must be of as many; got 3 on rank 1 and 2 on rank 0");
  expect_throws<CollectiveError>([&] { join_gloo_group(store, "odd", 0, 2); },
                                 "each rank must be one process; got a second rank 0 of odd");
  expect_throws<ValueError>([&] { join_gloo_group(store, "odd", 2, 2); },
                            "the rank must be in [0, 2); got 2");
  TransportOptions options;
  options.interface = "nowhere0";
  expect_throws<ValueError>(
      [&] { join_gloo_group(store, "net", 0, 1, options); },
      "the interface must be one of this machine, or an address of it; got \"nowhere0\"");
  options.interface = "192.0.2.1";  // belongs to no interface
  expect_throws<ValueError>([&] { join_gloo_group(store, "net", 0, 1, options); },
                            "got \"192.0.2.1\"");
  options.interface = "lo";
  EXPECT_EQ(join_gloo_group(store, "net", 0, 1, options)->world_size(), 1);
}

}  // namespace
}  // namespace ringrad
