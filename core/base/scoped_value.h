// ScopedValue: a variable has another value until the end of a scope.

#pragma once

#include <utility>

namespace ringrad {

/// Sets a variable that outlives it, and restores its value at the end, on the same thread. Scopes
/// may nest.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(before_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

  /// The value outside of the scope.
  const T& before() const { return before_; }

 private:
  T& variable_;
  T before_;
};

}  // namespace ringrad
