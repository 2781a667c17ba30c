// Ranks as processes: the same collectives as among threads, and what happens when a process ends.

#include "ringrad/parallel/comm/host/process_group.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::Body;
using testing::expect_throws;
using testing::Processes;
using testing::Random;
using testing::StoreProcess;

void on_ranks(int world_size, const Body& body, const ProcessGroupOptions& options = {}) {
  Processes processes(world_size, options, body);
  for (int rank = 0; rank < world_size; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

std::string differs(const char* what, const Tensor& actual, const std::vector<float>& expected) {
  return actual.to_vector<float>() == expected ? "" : std::string(what) + " is wrong";
}

// Tensors lie in shared memory, elsewhere, or in shared memory on every other rank.
TEST(ProcessGroupTest, AllReducesTensorsWhereverTheyLie) {
  for (const int n : {1, 2, 3, 4})
    on_ranks(n, [n](Communicator& comm) -> std::string {
      for (const std::int64_t count : {0, 1, 1000, 300'000})
        for (const int shared : {0, 1, 2}) {
          const bool here = shared == 1 || (shared == 2 && comm.rank() % 2 == 0);
          const Tensor x = here ? comm.empty_shared({count}) : empty({count});
          for (std::int64_t i = 0; i < count; ++i)
            x.data<float>()[i] = static_cast<float>(i % 100 + comm.rank());
          comm.all_reduce(x);
          for (std::int64_t i = 0; i < count; ++i)
            if (x.data<float>()[i] != static_cast<float>(n * (i % 100) + n * (n - 1) / 2))
              return concat("count ", count, ", element ", i, " is ", x.data<float>()[i]);
        }
      return "";
    });
}

TEST(ProcessGroupTest, HasEveryCollective) {
  on_ranks(3, [](Communicator& comm) -> std::string {
    const auto r = static_cast<float>(comm.rank());
    const Tensor scattered = empty({2}), gathered = empty({3}), exchanged = empty({3});
    comm.reduce_scatter(scattered, tensor({1., 2., 3., 4., 5., 6.}));
    comm.all_gather(gathered, full({1}, r));
    comm.all_to_all(exchanged, tensor({10 * r, 10 * r + 1, 10 * r + 2}));
    const Tensor x = full({2}, r), y = full({2}, r + 1),
                 half = full({4}, r, {.dtype = DType::float16});
    comm.broadcast(x, 1);
    comm.reduce(y, 2);
    comm.all_reduce(half, ReduceOp::mean);
    comm.barrier();
    const Tensor received = empty({1});
    comm.send(full({1}, r), (comm.rank() + 1) % 3);
    comm.recv(received, (comm.rank() + 2) % 3);
    std::string wrong = differs("reduce_scatter", scattered, {6 * r + 3, 6 * r + 6}) +
                        differs("all_gather", gathered, {0, 1, 2}) +
                        differs("all_to_all", exchanged, {r, 10 + r, 20 + r}) +
                        differs("broadcast", x, {1, 1}) +
                        differs("recv", received, {static_cast<float>((comm.rank() + 2) % 3)}) +
                        differs("all_reduce", half, {1, 1, 1, 1});
    if (comm.rank() == 2) wrong += differs("reduce", y, {6, 6});
    return wrong;
  });
}

TEST(ProcessGroupTest, SplitsAndSplitsAgain) {
  on_ranks(6, [](Communicator& comm) -> std::string {
    const int color = comm.rank() / 3;
    std::unique_ptr<Communicator> pair;
    {
      const auto row = comm.split(color);
      pair = row->split(row->rank() == 0 ? -1 : 0, -row->rank());
    }
    comm.barrier();
    if (comm.rank() % 3 == 0) return pair == nullptr ? "" : "a negative color got a group";
    const Tensor x = pair->empty_shared({100'000}), y = full({4}, comm.rank());
    std::fill_n(x.data<float>(), 100'000, static_cast<float>(comm.rank()));
    pair->all_reduce(x);
    pair->broadcast(y, 0);
    const float sum = static_cast<float>(6 * color + 3), last = static_cast<float>(3 * color + 2);
    return differs("all_reduce", x, std::vector<float>(100'000, sum)) +
           differs("broadcast", y, std::vector<float>(4, last));
  });
}

// Makes calls until there is an error, which must name rank 1; then the survivors, 0 and 2,
// continue.
std::string reduce_until_rank_1_dies(Communicator& comm) {
  const Tensor x = comm.empty_shared({100'000});
  try {
    for (;;) comm.all_reduce(x);
  } catch (const CollectiveError& error) {
    const std::string text = error.what();
    const bool good = comm.failed_rank() == 1 &&
                      text.find("all_reduce(sum, float32, 100000 elements) #") == 0 &&
                      text.find("got a failure of rank 1: it has died") != std::string::npos;
    if (!good) return text;
  }
  const auto rest = comm.shrink();
  const Tensor y = rest->empty_shared({2});
  y.data<float>()[0] = y.data<float>()[1] = static_cast<float>(comm.rank());
  rest->all_reduce(y);
  return differs("all_reduce of the survivors", y, {2, 2});
}

TEST(ProcessGroupTest, ARankThatEndsIsNamedByTheOthers) {
  for (const int how : {SIGKILL, SIGABRT, 0}) {
    Processes processes(3, ProcessGroupOptions{}, [how](Communicator& comm) -> std::string {
      if (comm.rank() != 1) return reduce_until_rank_1_dies(comm);
      const Tensor x = comm.empty_shared({100'000});
      for (int i = 0; i < 10; ++i) comm.all_reduce(x);
      if (how > 0) raise(how);
      _exit(0);
    });
    EXPECT_EQ(processes.wait(0), 0);
    EXPECT_EQ(processes.wait(2), 0);
    EXPECT_EQ(processes.wait(1), -how);
  }
}

TEST(ProcessGroupTest, ARankThatIsKilledAnywhereIsNamedByTheOthers) {
  Random random(1);
  for (int i = 0; i < 20; ++i) {
    Processes processes(3, ProcessGroupOptions{}, reduce_until_rank_1_dies);
    processes.wait_until_all_joined();
    std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 20'000)));
    processes.send_signal(1, SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    const int codes[] = {processes.wait(0), processes.wait(2)};
    EXPECT_EQ(codes[0], 0);
    EXPECT_EQ(codes[1], 0);
    EXPECT_EQ(processes.wait(1), -SIGKILL);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::kPatience);
  }
}

TEST(ProcessGroupTest, AStoppedRankIsLateAndFindsItselfEvicted) {
  ProcessGroupOptions options;
  options.deadline = testing::kShortDeadline;
  Processes processes(2, options, [](Communicator& comm) -> std::string {
    const Tensor x = zeros({8});
    if (comm.rank() == 1) raise(SIGSTOP);
    try {
      comm.all_reduce(x);
      return "no error";
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      const std::string expected =
          comm.rank() == 0 ? concat("every rank must arrive within ",
                                    testing::kShortDeadline.count(), " s; got no call from rank 1")
                           : "the group must be whole; got a failure of rank 1";
      return text.find(expected) != std::string::npos ? "" : text;
    }
  });
  EXPECT_EQ(processes.wait(0), 0);
  processes.send_signal(1, SIGCONT);
  EXPECT_EQ(processes.wait(1), 0);
}

TEST(ProcessGroupTest, DifferentCallsAreNamed) {
  on_ranks(2, [](Communicator& comm) -> std::string {
    try {
      const Tensor x = zeros({8}), y = zeros({9});
      comm.all_reduce(comm.rank() == 0 ? x : y);
      return "no error";
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      return text.find(
                 "all_reduce(sum, float32, 8 elements) on rank 0 and all_reduce(sum, float32, 9 "
                 "elements) on rank 1") != std::string::npos
                 ? ""
                 : text;
    }
  });
}

// Runs the bodies, each in a process of its own. Each must report no fault.
void in_processes(const std::vector<std::function<std::string()>>& bodies) {
  std::vector<pid_t> children;
  for (const auto& body : bodies) {
    const pid_t child = fork();
    if (child == 0) {
      std::string complaint;
      try {
        complaint = body();
      } catch (const std::exception& error) {
        complaint = error.what();
      }
      if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
      _exit(complaint.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(ProcessGroupTest, ANewGroupOfTheSameProcessesWorksAfterAFailure) {
  const StoreProcess server;
  const auto rank_body = [&](int rank) -> std::string {
    Store store(server.address());
    {
      const auto comm = join_process_group(store, "first", rank, 2);
      store.set(concat("joined", rank), "");
      store.get(concat("joined", 1 - rank));
      comm->abort("enough");
      if (comm->failed_rank() < 0) return "not broken";
    }
    const auto comm = join_process_group(store, "second", rank, 2);
    const Tensor x = ones({4});
    comm->all_reduce(x);
    return differs("all_reduce", x, {2, 2, 2, 2});
  };
  in_processes({[&] { return rank_body(0); }, [&] { return rank_body(1); }});
}

// As torchrun, mpirun and srun start ranks: rank 0 serves the store itself.
TEST(ProcessGroupTest, RanksFindEachOtherWithoutOurLauncher) {
  int port = 0;
  {
    const StoreServer server;
    port = server.address().port;
  }
  unsetenv("RINGRAD_TOKEN");
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  const auto rank_body = [](const char* rank) -> std::string {
    setenv("RANK", rank, 1);
    const auto comm = join_process_group();
    const Tensor x = ones({4});
    comm->all_reduce(x);
    comm->barrier();
    const std::string complaint = differs("all_reduce", x, {2, 2, 2, 2});
    if (complaint.empty()) std::exit(0);  // a normal exit, which also ends the store that it serves
    return complaint;
  };
  in_processes({[&] { return rank_body("1"); }, [&] { return rank_body("0"); }});
  unsetenv("WORLD_SIZE");
  unsetenv("MASTER_PORT");
}

TEST(ProcessGroupTest, RefusesRanksThatCountDifferently) {
  const StoreProcess server;
  const auto joins = [&](int rank, int world_size, const char* expected) {
    return [&server, rank, world_size, expected]() -> std::string {
      Store store(server.address());
      try {
        join_process_group(store, "odd", rank, world_size);
        return "joined";
      } catch (const CollectiveError& error) {
        const std::string text = error.what();
        return text.find(expected) != std::string::npos ? "" : text;
      }
    };
  };
  in_processes(
      {joins(0, 2, "all ranks must be of as many"), joins(1, 3, "all ranks must be of as many")});
  Store store(server.address());
  expect_throws<CollectiveError>([&] { join_process_group(store, "odd", 0, 2); },
                                 "each rank must be one process; got a second rank 0 of odd");
}

TEST(ProcessGroupTest, AMessageOutlivesItsSender) {
  on_ranks(2, [](Communicator& comm) -> std::string {
    constexpr std::int64_t kCount = 4 << 20;  // 16 MiB
    if (comm.rank() == 0) {
      comm.send(full({1}, getpid(), {.dtype = DType::int32}), 1);
      comm.send(full({kCount}, 7), 1);
      return "";
    }
    const Tensor sender = zeros({1}, {.dtype = DType::int32}), x = zeros({kCount});
    comm.recv(sender, 0);
    testing::wait_until_ended(sender.item<int>());
    comm.recv(x, 0);
    for (std::int64_t i = 0; i < kCount; ++i)
      if (x.data<float>()[i] != 7) return concat("element ", i, " is ", x.data<float>()[i]);
    return "";
  });
}

// --- Limits of the system: sanitizers need descriptors and addresses for themselves ---

#if !defined(RINGRAD_SANITIZE)

// The outcome of joining a group of two for a rank with this limit: an error's text, or "joined".
// Either way both ranks hold no more of the system afterwards than before, and the other rank's
// error has a type.
std::string outcome_of_joining(decltype(RLIMIT_NOFILE) resource, rlim_t limit) {
  const StoreProcess server;
  const auto try_to_join = [&](int rank) -> std::string {
    try {
      Store store(server.address(), milliseconds(300));
      join_process_group(store, "poor", rank, 2);
      return "joined";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto rank_0 = [&]() -> std::string {
    const auto held = testing::held_of_system();
    try_to_join(0);
    return testing::held_of_system() == held ? "" : "rank 0 has left something behind";
  };
  const auto rank_1 = [&]() -> std::string {
    const auto held = testing::held_of_system();
    rlimit before{};
    getrlimit(resource, &before);
    const rlimit few{limit, before.rlim_max};
    setrlimit(resource, &few);
    const std::string outcome = try_to_join(1);
    setrlimit(resource, &before);
    Store(server.address()).set("outcome", outcome);
    return testing::held_of_system() == held ? "" : "left behind after: " + outcome;
  };
  in_processes({rank_0, rank_1});
  return Store(server.address()).find("outcome").value_or("");
}

// The limit grows by one each time, so that each place that needs a descriptor fails once.
TEST(ProcessGroupTest, FewDescriptorsAreNamedAndNothingIsLeftBehind) {
  const int next = dup(0);
  close(next);
  rlim_t most = static_cast<rlim_t>(next);
  for (std::string outcome;; ++most) {
    outcome = outcome_of_joining(RLIMIT_NOFILE, most);
    if (outcome == "joined") break;
    EXPECT_NE(outcome.find(concat("Too many open files (RLIMIT_NOFILE is ", most, ')')),
              std::string::npos)
        << outcome;
    ASSERT_LT(most, next + 20);
  }
  EXPECT_GE(most, next + 4);  // the store, a heap, two processes
}

TEST(ProcessGroupTest, FewAddressesAreNamedAndNothingIsLeftBehind) {
  for (const rlim_t heaps : {0, 1}) {  // for which there is room
    const rlim_t bytes = heaps * kDefaultHeapBytes + (rlim_t{16} << 30);
    const std::string outcome = outcome_of_joining(RLIMIT_AS, bytes);
    const auto expected = concat("Cannot allocate memory (RLIMIT_AS is ", bytes, ')');
    EXPECT_NE(outcome.find(expected), std::string::npos) << outcome;
  }
}
#endif

TEST(ProcessGroupTest, ARankThatNeverComesIsNamed) {
  const StoreServer server;
  Store store(server.address(), milliseconds(100));
  expect_throws<CollectiveError>([&] { join_process_group(store, "lonely", 0, 2); },
                                 "\"lonely/1\" must be set within 0.1 s; got nothing");
}

}  // namespace
}  // namespace ringrad
