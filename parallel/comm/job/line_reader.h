// LineReader: reads what another process writes, line by line. LastLines: keeps the last lines.
//
//     "a\nb\n"             lines "a", "b"
//     "10 %\r20 %\r"       the line so far "10 %", then "20 %": a terminal shows the last one only
//     "a\r\n"              line "a\r"

#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

/// A longer line comes in pieces.
inline constexpr std::size_t kLongestLine = 16 << 20;

/// No terminal shows a longer line in one place. Such a line is taken once, when it is whole: if it
/// were taken again with everything that is read, its cost would grow as the square of its length.
inline constexpr std::size_t kLongestProgress = 4096;

class LineReader {
 public:
  explicit LineReader(Descriptor from) : from_(std::move(from)) {}

  int number() const { return from_.number(); }
  bool is_open() const { return from_.is_open(); }

  /// Reads what is there. Calls take(line, true) for each complete line. If a carriage return has
  /// restarted a line, calls take(text, false) with what the line shows so far, if that is short.
  ///
  /// REQUIRES: something is there, or the end
  template <class Take>
  void read_some(Take take) {
    char buffer[16 * 1024];
    const ssize_t count = read(from_.number(), buffer, sizeof buffer);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return end(take);  // a terminal ends with EIO
    for (ssize_t i = 0; i < count; ++i) add(buffer[i], take);
    if (is_returned_ || (is_progress_ && line_.size() <= kLongestProgress)) show(take);
  }

  /// Takes the last line, complete or not, and closes.
  template <class Take>
  void end(Take take) {
    if (!line_.empty()) take_line(take);
    from_.reset();
  }

 private:
  template <class Take>
  void add(char c, Take& take) {
    if (c == '\n') {
      if (is_returned_) line_ += '\r';
      return take_line(take);
    }
    if (c == '\r') {
      is_returned_ = true;
      return;
    }
    if (std::exchange(is_returned_, false)) {
      show(take);
      line_.clear();
      is_progress_ = true;
    }
    line_ += c;
    is_shown_ = false;
    if (line_.size() >= kLongestLine) take_line(take);
  }

  template <class Take>
  void show(Take& take) {
    if (!line_.empty() && !std::exchange(is_shown_, true)) take(std::as_const(line_), false);
  }

  template <class Take>
  void take_line(Take& take) {
    take(std::as_const(line_), true);
    line_ = std::string();  // a long one leaves no memory behind
    is_returned_ = is_progress_ = is_shown_ = false;
  }

  Descriptor from_;
  std::string line_;          // since the last '\n', or the last '\r' that more followed
  bool is_returned_ = false;  // the line is followed by '\r'
  bool is_progress_ = false;  // the line follows '\r'
  bool is_shown_ = false;     // take() has had it, as far as it goes
};

/// The last lines of something, which may be shown once more at the end.
class LastLines {
 public:
  void add(const std::string& line) {
    lines_.push_back(line.substr(0, kMostBytes));
    if (lines_.size() > kMost) lines_.pop_front();
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kMost = 20, kMostBytes = 64 << 10;

  std::deque<std::string> lines_;
};

}  // namespace ringrad
