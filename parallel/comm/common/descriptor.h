// Descriptor: a file descriptor that is closed with its owner.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/system_limits.h"

namespace ringrad {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Gives the descriptor up: another owner closes it.
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (is_open()) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor out, in;  // what is written to `in` is read from `out`
};

inline Pipe make_pipe(Where where) {
  int ends[2];
  RINGRAD_CHECK(pipe2(ends, O_CLOEXEC) == 0, Error, where, "launch: a pipe must be made; got ",
                text_of_errno(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace ringrad
