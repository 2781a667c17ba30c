// NoBrokenPipe: while it lives, a write of this thread to a connection whose other end is gone
// fails with EPIPE instead of ending the process by SIGPIPE. Libraries that write without
// MSG_NOSIGNAL need it: a rank must outlive its peers. The process's own handling of the signal is
// left alone. Threads that are started meanwhile inherit the blocked signal, for good.

#pragma once

#include <csignal>
#include <ctime>

namespace ringrad {

class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&broken_pipe_);
    sigaddset(&broken_pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
  }
  // A signal that came meanwhile must not be delivered now.
  ~NoBrokenPipe() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec no_wait{};
    if (!was_pending_) sigtimedwait(&broken_pipe_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t broken_pipe_, before_;
  bool was_pending_;
};

}  // namespace ringrad
