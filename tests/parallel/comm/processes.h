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

/// Runs the body on `world_size` processes. They are forked before the store has a thread, since
/// ThreadSanitizer lets a process that was forked from several threads start none, and are told afterwards
/// where it is.
class Processes {
 public:
  Processes(int world_size, const Join& join, const Body& body) {
    EXPECT_EQ(pipe(news_), 0);
    for (int rank = 0; rank < world_size; ++rank) {
      const pid_t child = fork();
      if (child == 0) run(rank, world_size, join, body);
      ranks_.push_back(child);
    }
    server_ = std::make_unique<StoreServer>();
    const News news(server_->address());
    for (int rank = 0; rank < world_size; ++rank)
      EXPECT_EQ(write(news_[1], &news, sizeof news), static_cast<ssize_t>(sizeof news));
    for (const int end : news_) close(end);
  }
  ~Processes() {
    for (const pid_t rank : ranks_)
      if (rank > 0) kill(rank, SIGKILL);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void send_signal(int rank, int signal) { kill(ranks_[static_cast<std::size_t>(rank)], signal); }

  void wait_until_all_joined() { Store(server_->address()).get("all"); }

  /// The rank's exit code, 1 also if an expectation failed, or minus the signal that ended it.
  int wait(int rank) {
    int status = -1;
    pid_t& process = ranks_[static_cast<std::size_t>(rank)];
    EXPECT_EQ(waitpid(process, &status, 0), process);
    process = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  struct News {
    News() = default;
    explicit News(const StoreAddress& address) : port(address.port) {
      address.token.copy(token, sizeof token - 1);
    }
    int port = 0;
    char token[64] = {};
  };

  [[noreturn]] void run(int rank, int world_size, const Join& join, const Body& body) {
    std::string complaint;
    try {
      News news;
      if (read(news_[0], &news, sizeof news) != sizeof news) _exit(1);
      for (const int end : news_) close(end);
      Store store({"127.0.0.1", news.port, news.token});
      const auto comm = join(store, rank, world_size);
      if (store.add("joined", 1) == world_size) store.set("all", "joined");
      store.get("all");  // what a rank does to itself, it does when nobody is joining any more
      complaint = body(*comm);
    } catch (const std::exception& error) {
      complaint = error.what();
    }
    if (!complaint.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
    _exit(complaint.empty() && !::testing::Test::HasFailure() ? 0 : 1);
  }

  int news_[2] = {-1, -1};
  std::unique_ptr<StoreServer> server_;
  std::vector<pid_t> ranks_;
};

}  // namespace ringrad::testing
