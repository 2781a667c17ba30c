// Ranks as processes that share memory: a rank that is stopped or out of memory, and the data that
// the others keep.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::Processes;

std::string differs(const char* what, const Tensor& actual, const std::vector<float>& expected) {
  return actual.to_vector<float>() == expected ? "" : std::string(what) + " is wrong";
}

// Stops this process when it first touches a page of `x`. Other processes may touch the page.
class StopWhereTouched {
 public:
  explicit StopWhereTouched(const Tensor& x) {
    const auto begin = reinterpret_cast<std::uintptr_t>(x.raw_data());
    page() = reinterpret_cast<void*>((begin + kBytes / 2) / kPage * kPage);
    struct sigaction action {};
    action.sa_handler = [](int) {
      raise(SIGSTOP);
      mprotect(page(), kPage, PROT_READ | PROT_WRITE);
    };
    sigaction(SIGSEGV, &action, nullptr);
    EXPECT_EQ(mprotect(page(), kPage, PROT_NONE), 0);
  }

  static constexpr std::size_t kBytes = std::size_t{1} << 20;

 private:
  static constexpr std::size_t kPage = 4096;

  static void*& page() {
    static void* page = nullptr;
    return page;
  }
};

// Rank 1 is stopped in the middle of a sum, half of which it writes to rank 0's memory. Once rank 0
// has its error, it has its memory to itself, and continues.
TEST(ProcessFailureTest, ARankStoppedInsideNeverWritesToTheOthersAgain) {
  constexpr std::int64_t kCount = StopWhereTouched::kBytes / sizeof(float);
  ProcessGroupOptions options;
  options.deadline = milliseconds(2000);
  options.segments = 1;
  options.all_reduce = "two_shot";  // reads no input before all ranks have entered the call
  Processes processes(2, options, [](Communicator& comm) -> std::string {
    const Tensor x = comm.empty_shared({kCount});
    std::fill_n(x.data<float>(), kCount, 1.0F);
    std::optional<StopWhereTouched> stop;
    comm.barrier();
    if (comm.rank() == 1) stop.emplace(x);
    try {
      comm.all_reduce(x);
      return "no error";
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      if (text.find("got no progress from rank 1") == text.npos) return text;
    }
    const auto rest = comm.shrink();
    std::fill_n(x.data<float>(), kCount, 5.0F);
    raise(SIGSTOP);  // until rank 1 has continued or ended
    rest->all_reduce(x);
    return differs("what the survivor has", x, std::vector<float>(kCount, 5));
  });
  processes.wait_until_stopped(0);
  processes.send_signal(1, SIGCONT);
  EXPECT_EQ(processes.wait(1), -SIGKILL);
  processes.send_signal(0, SIGCONT);
  EXPECT_EQ(processes.wait(0), 0);
}

// The stopped rank has copied part of its input, before the others have made their calls.
TEST(ProcessFailureTest, ARankThatSurvivorsLeaveOutInsideACallIsKilled) {
  constexpr std::int64_t kCount = StopWhereTouched::kBytes / sizeof(float);
  ProcessGroupOptions options;
  options.deadline = milliseconds(2000);
  options.all_reduce = "one_shot";  // copies its input before it enters the call
  options.segments = 1;
  ::testing::internal::CaptureStderr();
  Processes processes(2, options, [](Communicator& comm) -> std::string {
    const Tensor x = comm.empty_shared({kCount});
    std::fill_n(x.data<float>(), kCount, 1.0F);
    comm.barrier();
    if (comm.rank() == 1) {
      const StopWhereTouched stop(x);
      comm.all_reduce(x);
      return "no error";
    }
    raise(SIGSTOP);  // until rank 1 has stopped
    comm.abort("enough");
    const auto rest = comm.shrink();
    return rest->world_size() == 1 ? "" : "somebody else is there";
  });
  processes.wait_until_stopped(1);
  processes.wait_until_stopped(0);
  processes.send_signal(0, SIGCONT);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(1), -SIGKILL);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("ringrad: rank 1 (process "), said.npos) << said;
  EXPECT_NE(said.find(") was stopped inside a failed call; rank 0 kills it\n"), said.npos) << said;
}

// Such a rank may be busy with other work, such as a checkpoint.
TEST(ProcessFailureTest, ARankThatSurvivorsLeaveOutInNoCallGetsAnError) {
  ProcessGroupOptions options;
  options.deadline = milliseconds(2000);
  Processes processes(3, options, [](Communicator& comm) -> std::string {
    comm.barrier();
    if (comm.rank() == 1) raise(SIGSTOP);
    try {
      comm.barrier();
      return "no error";
    } catch (const CollectiveError&) {
    }
    if (comm.rank() == 1) {
      try {
        comm.shrink();
        return "no error of shrink";
      } catch (const CollectiveError& error) {
        const std::string text = error.what();
        return text.find("rank 1 was late, and the others have gone on") != text.npos ? "" : text;
      }
    }
    const auto rest = comm.shrink();
    const Tensor x = ones({4});
    rest->all_reduce(x);
    return differs("all_reduce of the survivors", x, {2, 2, 2, 2});
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
  processes.send_signal(1, SIGCONT);
  EXPECT_EQ(processes.wait(1), 0);
}

// Otherwise the others would wait for that rank.
TEST(ProcessFailureTest, ARankWithoutMemoryIsNamedByTheOthers) {
  const testing::Join join = [](Store& store, int rank, int world_size) {
    ProcessGroupOptions options;
    if (rank == 1) options.heap_bytes = 1 << 20;
    return join_process_group(store, "test", rank, world_size, options);
  };
  Processes processes(2, join, [](Communicator& comm) -> std::string {
    try {
      comm.reduce_scatter(zeros({1 << 20}), zeros({2 << 20}));
      return "no error";
    } catch (const OutOfMemoryError& error) {
      return comm.rank() == 1 ? "" : error.what();
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      return text.find("got a failure of rank 1: reduce_scatter ended with ") != text.npos ? ""
                                                                                           : text;
    }
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

// As where rank 1 waits for rank 2.
TEST(ProcessFailureTest, ALateMessageIsBlamedOnTheRankThatIsStopped) {
  ProcessGroupOptions options;
  options.deadline = testing::kShortDeadline;
  for (const bool sends : {false, true}) {
    Processes processes(3, options, [sends](Communicator& comm) -> std::string {
      const Tensor x = zeros({2});
      comm.barrier();
      if (comm.rank() == 2) raise(SIGSTOP);
      while (comm.rank() == 1 && comm.failed_rank() < 0) std::this_thread::yield();
      try {
        const int peer = comm.rank() == 1 ? 0 : 1;
        for (int i = 0; i < 5; ++i) sends ? comm.send(x, peer) : comm.recv(x, peer);
        return "no error";
      } catch (const CollectiveError& error) {
        const std::string text = error.what();
        const char* expected = comm.rank() == 1 ? "got a failure of rank 2: "
                               : sends
                                   ? "got 4 messages that it has not taken, while rank 2 is stopped"
                                   : "got no message, while rank 2 is stopped";
        if (comm.failed_rank() != 2) return "another rank is blamed";
        return text.find(expected) != text.npos ? "" : text;
      }
    });
    for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
  }
}

TEST(ProcessFailureTest, ASubgroupNamesRanksByTheirNumbersInTheJob) {
  Processes processes(4, ProcessGroupOptions{}, [](Communicator& comm) -> std::string {
    const auto pair = comm.split(comm.rank() / 2);
    if (comm.rank() == 3) raise(SIGKILL);
    if (comm.rank() != 2) return "";
    try {
      pair->barrier();
      return "no error";
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      const bool good = text.find("barrier() #1 on rank 2: ") == 0 &&
                        text.find("got a failure of rank 3: it has died") != text.npos;
      return good ? "" : text;
    }
  });
  EXPECT_EQ(processes.wait(3), -SIGKILL);
  for (const int rank : {0, 1, 2}) EXPECT_EQ(processes.wait(rank), 0);
}

}  // namespace
}  // namespace ringrad
