// Ranks as processes, forked by a test.

#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/store/store_process.h"

namespace ringrad::testing {

/// A rank's report on itself: empty if it found no fault.
using Body = std::function<std::string(Communicator&)>;
/// Makes the communicator of a rank: (store, rank, world_size).
using Join = std::function<std::unique_ptr<Communicator>(Store&, int, int)>;

/// The system's resources that this process holds: descriptors, and maps of shared memory. The
/// driver of a real GPU opens files whenever it likes: there only what Ringrad has named counts.
inline std::vector<std::string> held_of_system() {
  std::vector<std::string> held;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor, for one
    const auto what = std::filesystem::read_symlink(file, gone);
    if (!gone && what.string().find("/proc/") != 0) held.push_back(what);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:") != line.npos) held.push_back(line);
  if (!is_cuda_simulated())
    std::erase_if(held, [](const auto& one) { return one.find("ringrad") == one.npos; });
  std::sort(held.begin(), held.end());
  return held;
}

/// Runs the body on `world_size` processes, forked from a process without threads. In a program of
/// many tests, only those of suites called "...DeathTest" may use it: GoogleTest runs them first.
class Processes {
 public:
  Processes(int world_size, const Join& join, const Body& body) {
    start(world_size, join, body, /*counts_held=*/false, [] {});
  }

  /// The ranks join a process group (process_group.h). A rank whose body finds no fault must hold
  /// no more of the system after it has left the group than before; resources that `prepare` takes
  /// do not count.
  Processes(
      int world_size, const ProcessGroupOptions& options, const Body& body,
      const std::function<void()>& prepare = [] {}) {
    const Join join = [&](Store& store, int rank, int size) {
      return join_process_group(store, "test", rank, size, options);
    };
    start(world_size, join, body, /*counts_held=*/true, prepare);
  }

  ~Processes() {
    for (const pid_t rank : ranks_)
      if (rank > 0) {
        kill(rank, SIGKILL);
        waitpid(rank, nullptr, 0);
      }
  }

  void send_signal(int rank, int signal) { kill(ranks_[static_cast<std::size_t>(rank)], signal); }

  /// REQUIRES: the rank stops itself
  void wait_until_stopped(int rank) {
    siginfo_t stopped{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(ranks_[static_cast<std::size_t>(rank)]), &stopped,
                     WSTOPPED | WNOWAIT),
              0);
  }

  void wait_until_all_joined() { Store(server_.address()).get("all"); }

  /// The rank's exit code, or minus the signal that ended it. A rank that hangs is killed, which
  /// counts as a failure.
  int wait(int rank, std::chrono::nanoseconds hangs = kPatience) {
    pid_t& process = ranks_[static_cast<std::size_t>(rank)];
    const int file = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    pollfd ended{file, POLLIN, 0};
    const auto has_ended = [&](std::chrono::milliseconds tick) {
      return poll(&ended, 1, static_cast<int>(tick.count())) == 1;
    };
    if (!happens_in_time(has_ended, hangs)) {
      ADD_FAILURE() << "rank " << rank << " hangs";
      kill(process, SIGKILL);
    }
    close(file);
    int status = -1;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    process = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  void start(int world_size, const Join& join, const Body& body, bool counts_held,
             const std::function<void()>& prepare) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    EXPECT_TRUE(!std::getenv("GTEST_TOTAL_SHARDS") ||
                std::string_view(test->test_suite_name()).ends_with("DeathTest"))
        << "forks, maybe after other tests have started threads";
    for (int rank = 0; rank < world_size; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        prepare();
        run(rank, world_size, join, body, counts_held);
      }
      ranks_.push_back(child);
    }
  }

  [[noreturn]] void run(int rank, int world_size, const Join& join, const Body& body,
                        bool counts_held) {
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(world_size).c_str(), 1);
    std::string complaint;
    const auto held_before = held_of_system();
    try {
      Store store(server_.address());
      const auto comm = join(store, rank, world_size);
      if (store.add("joined", 1) == world_size) store.set("all", "joined");
      store.get("all");  // the body may break the group: every rank has joined now
      complaint = body(*comm);
    } catch (const std::exception& error) {
      complaint = error.what();
    }
    if (counts_held && complaint.empty() && held_of_system() != held_before) {
      complaint = "left behind, or taken away:";
      for (const std::string& one : held_of_system()) complaint += "\n  " + one;
    }
    if (complaint.empty() && ::testing::Test::HasFailure()) complaint = "a check failed";
    if (!complaint.empty()) {
      std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
      std::fflush(stdout);  // output of failed checks
    }
    _exit(complaint.empty() ? 0 : 1);
  }

  StoreProcess server_;
  std::vector<pid_t> ranks_;
};

}  // namespace ringrad::testing
