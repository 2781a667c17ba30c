// DeviceThreads: threads that wait for work, one per device of a process or per branch of a
// network.
//
// A thread that stays alive keeps its OpenMP team and its lists of free memory. No thread polls.
// The caller waits as long as the work takes, as if it did the work itself.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad {

class DeviceThreads {
 public:
  /// Each thread's OpenMP team is an equal share of the calling thread's team, at least one thread.
  explicit DeviceThreads(int count);
  /// Ends the threads. REQUIRES: no call is running
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  /// Calls body(k) on thread k for all k < count. Returns when all calls have returned, with the
  /// exception that each has thrown (null for none). The threads see what was written before the
  /// call, and the caller sees what the threads wrote.
  ///
  /// Throws: ValueError if a call is already running, from another thread or from within body
  std::vector<std::exception_ptr> run(int count, const std::function<void(int)>& body, Where where);

 private:
  void work(int k, int team);
  void close() noexcept;

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  // Guarded by mutex_:
  const std::function<void(int)>* body_ = nullptr;  // of the running call
  int num_called_ = 0, num_running_ = 0;
  std::uint64_t call_ = 0;  // a thread works once for each number
  bool closing_ = false;
  std::vector<std::exception_ptr> errors_;

  std::vector<std::thread> threads_;
};

/// The calling thread's own `count` threads, which share its OpenMP team. They are made at its
/// first such call and kept until it ends. All blocks of a network use the same threads.
///
/// REQUIRES: count <= omp_get_max_threads()
DeviceThreads& threads_of_caller(int count);

}  // namespace ringrad
