// Waiting until another thread or process sleeps or has ended. Tests that need this ask the kernel,
// because any fixed wait is too short on some machine.

#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace ringrad::testing {

/// The state of a thread of any process, as in /proc/PID/stat: R running, S asleep, T stopped, Z
/// ended and not yet waited for; 0 if there is no such thread. The id of a process is that of its
/// first thread.
inline char state_of(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the name may contain any byte
  return name_end == text.npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

/// Returns when the thread is in the given state. Fails the test if that takes longer than 20 s.
inline void wait_for_state(pid_t thread, char state) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state_of(thread) != state) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "thread " << thread << " must come to state " << state
                    << " within 20 s; it is in " << state_of(thread);
      return;
    }
    std::this_thread::yield();
  }
}
inline void wait_until_asleep(pid_t thread) { wait_for_state(thread, 'S'); }
inline void wait_until_stopped(pid_t process) { wait_for_state(process, 'T'); }

/// Returns when the process has ended, even if it is not a child. Fails the test if that takes
/// longer than 20 s.
inline void wait_until_ended(pid_t process) {
  const int file = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (file < 0) return;  // the process no longer exists
  pollfd ended{file, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 20'000), 1) << "process " << process << " goes on";
  close(file);
}

}  // namespace ringrad::testing
