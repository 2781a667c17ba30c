// Ranks as processes, for tests that end, kill or stop some of them.

#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/store.h"

namespace ringrad::testing {

/// What a rank says of itself: nothing if all went as it should.
using Body = std::function<std::string(Communicator&)>;
/// Makes the communicator of a rank: (store, rank, world_size).
using Join = std::function<std::unique_ptr<Communicator>(Store&, int, int)>;

/// Runs the body on `world_size` processes, forked from one that has no threads but the store's.
class Processes {
 public:
  Processes(int world_size, const Join& join, const Body& body) {
    for (int rank = 0; rank < world_size; ++rank) {
      const pid_t child = fork();
      if (child == 0) run(rank, world_size, join, body);
      ranks_.push_back(child);
    }
  }
  ~Processes() {
    for (const pid_t rank : ranks_)
      if (rank > 0) kill(rank, SIGKILL);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void send_signal(int rank, int signal) { kill(ranks_[static_cast<std::size_t>(rank)], signal); }

  void wait_until_all_joined() { Store(server_.address()).get("all"); }

  /// The rank's exit code, 1 also if an expectation failed, or minus the signal that ended it.
  int wait(int rank) {
    int status = -1;
    pid_t& process = ranks_[static_cast<std::size_t>(rank)];
    EXPECT_EQ(waitpid(process, &status, 0), process);
    process = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  [[noreturn]] void run(int rank, int world_size, const Join& join, const Body& body) {
    std::string complaint;
    try {
      Store store(server_.address());
      const auto comm = join(store, rank, world_size);
      if (store.add("joined", 1) == world_size) store.set("all", "joined");
      complaint = body(*comm);
    } catch (const std::exception& error) {
      complaint = error.what();
    }
    if (!complaint.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
    _exit(complaint.empty() && !::testing::Test::HasFailure() ? 0 : 1);
  }

  StoreServer server_;
  std::vector<pid_t> ranks_;
};

}  // namespace ringrad::testing
