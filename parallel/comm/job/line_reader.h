// LineReader: what another process writes, line by line. LastLines: the last of them.

#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

class LineReader {
 public:
  explicit LineReader(Descriptor from) : from_(std::move(from)) {}

  int number() const { return from_.number(); }
  bool is_open() const { return from_.is_open(); }

  /// Reads what is there, and calls take(line) for each line that is complete; long ones come in
  /// pieces.
  ///
  /// REQUIRES: something is there, or the end
  template <class Take>
  void read_some(Take take) {
    char buffer[4096];
    const ssize_t count = read(from_.number(), buffer, sizeof buffer);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    for (ssize_t i = 0; i < count; ++i) {
      if (buffer[i] != '\n') line_ += buffer[i];
      if (buffer[i] == '\n' || line_.size() >= kLongestLine) take(std::exchange(line_, {}));
    }
    if (count > 0) return;
    if (!line_.empty()) take(std::exchange(line_, {}));
    from_.reset();
  }

 private:
  static constexpr std::size_t kLongestLine = 64 * 1024;

  Descriptor from_;
  std::string line_;
};

/// The last lines of something, which may be shown once more at the end.
class LastLines {
 public:
  void add(const std::string& line) {
    lines_.push_back(line);
    if (lines_.size() > kMost) lines_.pop_front();
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kMost = 20;

  std::deque<std::string> lines_;
};

}  // namespace ringrad
