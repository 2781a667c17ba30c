// Unwinding: tells a destructor whether an exception ends its object's life.

#pragma once

#include <exception>

namespace ringrad {

/// A member that is true while an exception, thrown since the object was made, unwinds the stack.
class Unwinding {
 public:
  explicit operator bool() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

/// What a rank that leaves by an exception reports to the others.
inline constexpr char kEndedByException[] = "an exception ended its work";

}  // namespace ringrad
