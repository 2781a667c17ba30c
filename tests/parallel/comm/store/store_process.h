// StoreProcess: a store served by a process of its own.

#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "ringrad/parallel/comm/store/store_address.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad::testing {

/// A store served by a process of its own. A test that forks must have no threads: a child would
/// find their locks taken forever.
class StoreProcess {
 public:
  explicit StoreProcess(const StoreLimits& limits = {}) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) serve(ends[1], limits);
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &address_.port, sizeof address_.port), sizeof address_.port);
    close(ends[0]);
  }
  ~StoreProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  const StoreAddress& address() const { return address_; }
  void send_signal(int signal) const { kill(process_, signal); }
  /// Returns when it has stopped, which takes a moment.
  void stop() const {
    send_signal(SIGSTOP);
    siginfo_t stopped{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process_), &stopped, WSTOPPED | WNOWAIT), 0);
  }
  pid_t process() const { return process_; }

 private:
  [[noreturn]] void serve(int ready, const StoreLimits& limits) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const StoreServer server(address_, limits);
    const int port = server.address().port;
    if (write(ready, &port, sizeof port) == sizeof port)
      for (;;) pause();
    _exit(1);
  }

  StoreAddress address_{.token = make_token()};
  pid_t process_;
};

}  // namespace ringrad::testing
