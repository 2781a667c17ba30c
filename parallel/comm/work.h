// Work: an operation that goes on beside the thread that asked for it.

#pragma once

#include <memory>

#include "core/error.h"

namespace ringrad {

class Work {
 public:
  /// One that is done.
  Work() = default;

  /// Until it is done, and its tensors are the caller's again: on the CPU the calling thread waits, on a GPU the
  /// current stream.
  ///
  /// Throws: what the operation threw; each time it is asked
  void wait() const {
    if (state_) state_->wait();
  }
  /// Does not throw for an operation that failed: it is done.
  bool is_done() const { return !state_ || state_->is_done(); }

  /// What stands behind it. A wait has an end, since each of the operation's own waits has a deadline.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() const = 0;
    virtual bool is_done() const = 0;
  };
  explicit Work(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace ringrad
