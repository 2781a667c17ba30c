// QuietWrites: writes that fail by an error number, never by a signal.
//
// The system sends SIGXFSZ to a thread that writes beyond the process's limit on file sizes
// (ulimit -f), and SIGPIPE to a thread that writes to a pipe or socket without a reader. Both end
// the process unless it has prepared for them. While a QuietWrites lives, neither reaches the
// calling thread, and the write returns EFBIG or EPIPE.

#pragma once

#include <csignal>

namespace ringrad {

class QuietWrites {
 public:
  QuietWrites();
  /// Discards the signals of writes since the constructor. Keeps errno.
  ~QuietWrites();
  QuietWrites(const QuietWrites&) = delete;
  QuietWrites& operator=(const QuietWrites&) = delete;

 private:
  sigset_t ours_{}, before_{};
};

}  // namespace ringrad
