// Locked: a shared object, for as long as its mutex is held.

#pragma once

#include <mutex>

namespace ringrad {

/// Holds the mutex of `object`, its member `mutex`, and gives access to it:
/// Locked(pool)->num_free reads one member, and `const Locked locked(pool)` covers a scope.
template <class T>
class Locked {
 public:
  explicit Locked(T& object) : object_(object), lock_(object.mutex) {}
  T* operator->() const { return &object_; }

 private:
  T& object_;
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace ringrad
