// What a forked child must leave alone.
//
// A child has a copy of each of its parent's objects, but none of the threads that they wait for.
// An object's system resources are shared with the parent, not copied: a group's memory, sockets,
// an epoll instance. Destroying the copy would hang, or break a resource that the parent still
// uses.

#pragma once

#include <memory>
#include <vector>

namespace ringrad {

/// A member that is true in the process that made the object, and false in a forked child's copy.
class OwnProcess {
 public:
  explicit operator bool() const noexcept { return num_forks_ == num_forks; }

 private:
  /// How many forks lie between the program's first process and this one. Asking the system for the
  /// process's number would cost about as much as a small collective.
  static int num_forks;

  int num_forks_ = num_forks;
};

/// Deletes an object in the process that made it. A forked child keeps its copy to the end.
template <class T>
class DeleteInOwnProcess {
 public:
  void operator()(T* object) const {
    if (in_own_process_) return delete object;
    static auto* const kept = new std::vector<T*>;
    kept->push_back(object);
  }

 private:
  OwnProcess in_own_process_;
};

template <class T>
using OwnedByProcess = std::unique_ptr<T, DeleteInOwnProcess<T>>;

}  // namespace ringrad
