#include "ringrad/core/file/quiet_writes.h"

#include <pthread.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace ringrad {

// A signal that is pending already is somebody else's, and must stay pending.
QuietWrites::QuietWrites() {
  sigset_t pending;
  sigemptyset(&ours_);
  sigpending(&pending);
  for (const int signal : {SIGXFSZ, SIGPIPE})
    if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
  pthread_sigmask(SIG_BLOCK, &ours_, &before_);
}

QuietWrites::~QuietWrites() {
  const int error = errno;
  constexpr timespec kNoTime{};
  while (sigtimedwait(&ours_, nullptr, &kNoTime) >= 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace ringrad
