// Work: an operation that runs asynchronously to the thread that started it.

#pragma once

#include <memory>

#include "ringrad/core/base/error.h"

namespace ringrad {

class Work {
 public:
  /// An operation that is done.
  Work() = default;

  /// Waits until the operation is done and the caller may use its tensors again. On the CPU the
  /// calling thread waits, on a GPU the current stream.
  ///
  /// Throws: the operation's exception, on every call
  void wait() const {
    if (state_) state_->wait();
  }
  /// Also true, without throwing, for an operation that failed.
  bool is_done() const { return !state_ || state_->is_done(); }

  /// The implementation. A wait always ends, since each wait inside the operation has a deadline.
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
