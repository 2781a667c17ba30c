// Guarantees for failures of ranks, GPUs or NCCL itself. Every rank gets an error in time that
// names the culprit and the reason. No rank gets a result that does not exist. All of NCCL's
// communicators are aborted.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/gpu/nccl_communicator.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"
#include "ringrad/tests/parallel/comm/patience.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::expect_exact;
using testing::expect_throws;
using testing::kMockNcclFile;
using testing::run_nccl_ranks;
using testing::use_mock_nccl;
using Clock = std::chrono::steady_clock;

constexpr auto kShort = testing::kShortDeadline;

class NcclFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_cuda_simulated()) GTEST_SKIP() << "real GPUs: see nccl_hardware_test";
    use_mock_nccl();
  }
  void TearDown() override {
    if (!is_cuda_simulated()) return;
    const testing::MockNcclState state = testing::mock_nccl_state();
    EXPECT_EQ(state.num_live, 0);
    EXPECT_EQ(state.num_broken_rules, 0) << state.rule;
  }
};

// Returns the message that `body` threw; it must come within `limit`.
template <class Body>
std::string error_of(Clock::duration limit, Body body) {
  const auto begin = Clock::now();
  std::string text;
  try {
    body();
  } catch (const CollectiveError& error) {
    text = error.message();
  }
  EXPECT_LT(Clock::now() - begin, limit) << text;
  return text;
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "in: " << text << "\nmust be: " << part;
}

void call_and_wait(Communicator& comm) {
  comm.all_reduce(ones({1000}));
  synchronize(default_device());
}

// The group is broken on this rank as well, and its calls fail at once.
void expect_broken(Communicator& comm) {
  while (comm.failed_rank() < 0) std::this_thread::yield();
  const std::string text = error_of(seconds(1), [&] { comm.all_reduce(ones({8})); });
  expect_contains(text,
                  concat("the group must be whole; got a failure of rank ", comm.failed_rank()));
  try {  // the error of queued work may still be pending
    synchronize(default_device());
  } catch (const CollectiveError&) {
  }
}

// --- NCCL fails ---

TEST_F(NcclFailureTest, ARemoteErrorEndsAllRanks) {
  use_mock_nccl({.remote_error_at_call = 2});
  run_nccl_ranks(3, [](Communicator& comm) {
    call_and_wait(comm);
    const std::string text = error_of(seconds(10), [&] { call_and_wait(comm); });
    expect_contains(text, concat("all_reduce"));
    expect_contains(text, concat("#2 on rank ", comm.rank()));
    expect_broken(comm);
  });
}

TEST_F(NcclFailureTest, ACallThatNcclRefusesIsNamed) {
  use_mock_nccl({.refused_call = 2});
  run_nccl_ranks(3, [](Communicator& comm) {
    call_and_wait(comm);
    const std::string text = error_of(seconds(10), [&] { call_and_wait(comm); });
    if (comm.rank() == 0)
      EXPECT_EQ(text,
                "all_reduce(sum, float32, 1000 elements on cuda) #2 on rank 0: NCCL must not "
                "fail; got invalid argument, said by the mock");
    else
      expect_contains(text, concat("#2 on rank ", comm.rank()));
    EXPECT_EQ(comm.failed_rank(), 0);
    expect_broken(comm);
  });
}

TEST_F(NcclFailureTest, ACallThatNeverEndsIsGivenUpAtTheDeadline) {
  use_mock_nccl({.stuck_call = 2});
  run_nccl_ranks(
      3,
      [](Communicator& comm) {
        call_and_wait(comm);
        const std::string text = error_of(testing::kPatience, [&] { call_and_wait(comm); });
        expect_contains(text, concat("all_reduce #2 on rank ", comm.rank(),
                                     ": every rank must arrive on its GPU within ", kShort.count(),
                                     " s; got "));
        expect_broken(comm);
      },
      kShort);
}

TEST_F(NcclFailureTest, LeavesAGroupWhoseCallNeverEnds) {
  use_mock_nccl({.stuck_call = 1});
  std::vector<Tensor> results(2);  // no code waits for them while the group exists
  const auto begin = Clock::now();
  run_nccl_ranks(
      2,
      [&](Communicator& comm) {
        results[comm.rank()] = ones({8});
        comm.all_reduce(results[comm.rank()]);
      },
      kShort);
  EXPECT_LT(Clock::now() - begin, testing::kPatience);
  for (const Tensor& x : results) EXPECT_THROW(x.to_vector<float>(), CollectiveError);
}

TEST_F(NcclFailureTest, NobodyWaitsLongForAnAbort) {
  use_mock_nccl({.stuck_call = 1, .abort_waits = true});
  const auto begin = Clock::now();
  run_nccl_ranks(
      2,
      [](Communicator& comm) {
        expect_contains(error_of(testing::kPatience, [&] { call_and_wait(comm); }), "#1 on rank");
        expect_broken(comm);
      },
      kShort);
  EXPECT_LT(Clock::now() - begin, testing::kPatience);
  use_mock_nccl();  // lets the abort end
}

TEST_F(NcclFailureTest, InitThatNeverEndsIsGivenUp) {
  use_mock_nccl({.init_never_ends = true});
  auto hosts = make_thread_group(2);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      errors[rank] = error_of(testing::kPatience, [&] {
        with_nccl(std::move(hosts[rank]), Device(DeviceType::cuda, rank),
                  {.deadline = kShort, .library = kMockNcclFile});
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 2; ++rank) {
    expect_contains(errors[rank], concat("nccl: rank ", rank, ": "));
    EXPECT_TRUE(errors[rank].find(concat("must be ready within ", kShort.count(), " s")) !=
                    std::string::npos ||
                errors[rank].find("the group must be whole") != std::string::npos)
        << errors[rank];
  }
}

// --- Ranks fail ---

TEST_F(NcclFailureTest, DifferentCallsAreNamed) {
  run_nccl_ranks(3, [](Communicator& comm) {
    call_and_wait(comm);
    const Tensor x = ones({8});
    const std::string text = error_of(
        seconds(10), [&] { comm.all_reduce(x, comm.rank() == 1 ? ReduceOp::max : ReduceOp::sum); });
    EXPECT_EQ(text,
              concat("all_reduce(", comm.rank() == 1 ? "max" : "sum",
                     ", float32, 8 elements on cuda) #2 on rank ", comm.rank(),
                     ": all ranks must make the same call; got all_reduce(sum, float32, 8 "
                     "elements on cuda) on ranks 0, 2 and all_reduce(max, float32, 8 elements "
                     "on cuda) on rank 1"));
    expect_broken(comm);
  });
}

// The tensors compared are the host's, but the error names the user's calls.
TEST_F(NcclFailureTest, TensorsThatLieElsewhereAreNamed) {
  run_nccl_ranks(3, [](Communicator& comm) {
    call_and_wait(comm);
    const Tensor x = ones({8}, {.device = comm.rank() == 1 ? Device() : default_device()});
    expect_contains(error_of(seconds(10), [&] { comm.all_reduce(x); }),
                    "all ranks must make the same call; got all_reduce(sum, float32, 8 elements on "
                    "cuda) on ranks 0, 2 and all_reduce(sum, float32, 8 elements) on rank 1");
    expect_broken(comm);
  });
}

TEST_F(NcclFailureTest, ARankThatDoesNotCallIsNamed) {
  run_nccl_ranks(
      3,
      [](Communicator& comm) {
        call_and_wait(comm);
        if (comm.rank() == 1) return expect_broken(comm);
        const std::string text = error_of(testing::kPatience, [&] { call_and_wait(comm); });
        expect_contains(text, concat("all_reduce(sum, float32, 1000 elements on cuda) #2 on rank ",
                                     comm.rank()));
      },
      kShort);
}

TEST_F(NcclFailureTest, AnAbortEndsWhatIsQueued) {
  use_mock_nccl({.stuck_call = 1});
  std::atomic<int> num_queued = 0;
  run_nccl_ranks(3, [&](Communicator& comm) {
    comm.all_reduce(ones({8}));
    ++num_queued;
    while (num_queued < 3) std::this_thread::yield();
    if (comm.rank() == 1) comm.abort("enough");
    const std::string text = error_of(seconds(5), [] { synchronize(default_device()); });
    expect_contains(text, concat("all_reduce #1 on rank ", comm.rank()));
    expect_contains(text, "got a broken group");
    if (comm.rank() != 1) expect_contains(text, "while waiting for rank 1");
    EXPECT_EQ(comm.failed_rank(), 1);
    expect_contains(error_of(seconds(1), [&] { comm.all_reduce(ones({8})); }), "enough");
  });
}

TEST_F(NcclFailureTest, TheOthersGoOn) {
  std::atomic<int> num_done = 0;
  run_nccl_ranks(4, [&](Communicator& comm) {
    call_and_wait(comm);
    ++num_done;
    while (num_done < 4) std::this_thread::yield();
    if (comm.rank() == 2) return comm.abort("enough");
    expect_broken(comm);
    const auto rest = comm.shrink();
    EXPECT_EQ(rest->world_size(), 3);
    for (const Collective collective : {Collective::all_reduce, Collective::all_to_all})
      expect_exact(*rest, {collective, DType::float32, ReduceOp::sum, 0, 1000});
  });
}

// Remains of the old group, such as abandoned work and its pending error, do not reach the new
// group.
TEST_F(NcclFailureTest, ShrinkLeavesUnfinishedCallsBehind) {
  use_mock_nccl({.stuck_call = 2});
  run_nccl_ranks(3, [](Communicator& comm) {
    call_and_wait(comm);
    const Tensor x = ones({8});
    try {
      comm.all_reduce(x);
    } catch (const CollectiveError&) {  // the call came after the abort
    }
    if (comm.rank() == 2) return comm.abort("enough");
    while (comm.failed_rank() < 0) std::this_thread::yield();
    const auto rest = comm.shrink();
    expect_exact(*rest, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
  });
}

TEST_F(NcclFailureTest, ASecondThreadIsRefused) {
  std::atomic<int> num_refused = 0;
  run_nccl_ranks(2, [&](Communicator& comm) {
    const Device gpu = default_device();
    const auto call = [&] {
      const Tensor x = ones({8}, {.device = gpu});
      try {
        comm.all_reduce(x);
      } catch (const CollectiveError& error) {
        expect_contains(std::string(error.message()), "a communicator serves one thread at a time");
        ++num_refused;
      }
    };
    if (comm.rank() == 0) {
      std::thread other(call);
      call();
      other.join();
      EXPECT_EQ(num_refused, 1);
    } else {
      while (num_refused == 0)
        std::this_thread::yield();  // until then, rank 0's first call waits for this call
      call();
    }
  });
}

// --- Groups that cannot be made ---

TEST_F(NcclFailureTest, TwoRanksNeedTwoGpus) {
  auto hosts = make_thread_group(2);
  const auto join_on_gpu_0 = [&](int rank) {
    expect_throws<DeviceError>(
        [&] { with_nccl(std::move(hosts[rank]), "cuda:0", {.library = kMockNcclFile}); },
        concat("nccl: each rank needs a GPU of its own; got the same one on ranks 0, 1, and cuda:0 "
               "on rank ",
               rank));
  };
  std::thread other(join_on_gpu_0, 1);
  join_on_gpu_0(0);
  other.join();
}

TEST_F(NcclFailureTest, OneGpuIsEnoughForLaterVersionsIfAskedFor) {
  use_mock_nccl({.version = 23004});
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  run_ranks(2, [](Communicator& threads) {
    auto host = threads.split(0);
    const DefaultDeviceGuard guard("cuda");
    const Stream own("cuda:0");
    const StreamGuard on_own(own);
    const auto comm = with_nccl(std::move(host), "cuda:0", {.library = kMockNcclFile});
    expect_exact(*comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 100});
  });
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

std::unique_ptr<Communicator> alone() { return std::move(make_thread_group(1)[0]); }

TEST_F(NcclFailureTest, SaysWhatIsWrongWithTheLibrary) {
  const auto expect_refused = [](const char* file, const char* text) {
    expect_throws<CollectiveError>([&] { with_nccl(alone(), "cuda:0", {.library = file}); }, text);
  };
  expect_refused("/no/such/libnccl.so", "nccl: /no/such/libnccl.so must be there, or RINGRAD_NCCL");
  expect_refused("libm.so.6", "nccl: libm.so.6 must have every function that is used; got");
  use_mock_nccl({.version = 21309});
  expect_refused(kMockNcclFile, "must be 2.14.0 or later, whose calls do not block; got 2.13.9");
  use_mock_nccl({.version = 2804});
  expect_refused(kMockNcclFile, "got 2.8.4");
}

TEST_F(NcclFailureTest, TheEnvironmentNamesTheLibrary) {
  setenv("RINGRAD_NCCL", "/no/such/library.so", 1);
  expect_throws<CollectiveError>([] { with_nccl(alone(), "cuda:0"); },
                                 "nccl: /no/such/library.so must be there");
  setenv("RINGRAD_NCCL", kMockNcclFile, 1);
  EXPECT_EQ(with_nccl(alone(), "cuda:0")->world_size(), 1);
  unsetenv("RINGRAD_NCCL");
}

TEST_F(NcclFailureTest, RefusesWhatCannotBe) {
  expect_throws<ValueError>([] { with_nccl(nullptr, "cuda:0"); }, "there must be a group");
  expect_throws<DeviceError>([] { with_nccl(alone(), "cpu:0"); }, "must be a GPU; got cpu:0");
  expect_throws<DeviceError>([] { with_nccl(alone(), "cuda:60", {.library = kMockNcclFile}); },
                             "cuda:60 must exist");
  expect_throws<ValueError>(
      [] { with_nccl(alone(), "cuda:0", {.deadline = seconds(0), .library = kMockNcclFile}); },
      "the deadline must be positive; got 0 ns");
}

}  // namespace
}  // namespace ringrad
