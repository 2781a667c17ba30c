// DeviceThreads: threads that wait for work: one per device of a process, or per branch of a network.
//
// A thread that lives on keeps its OpenMP team, and its lists of free memory. Nobody polls; the caller waits as long as
// the work takes, as if it did it itself.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"

namespace ringrad {

class DeviceThreads {
 public:
  /// Each thread's OpenMP team is its share of the calling thread's, at least one thread.
  explicit DeviceThreads(int count);
  /// Ends the threads. REQUIRES: no call is running
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  /// Calls body(k) on thread k for all k < count, and returns when all have returned: what each has thrown, null for
  /// nothing. What was written before the call is seen by the threads, and what they wrote after it.
  ///
  /// Throws: ValueError if a call is running, from another thread or from within body
  std::vector<std::exception_ptr> run(int count, const std::function<void(int)>& body, Where where);

 private:
  void work(int k, int team);
  void close() noexcept;

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  // Guarded by mutex_:
  const std::function<void(int)>* body_ = nullptr;  // of the call that runs now
  int num_called_ = 0, num_running_ = 0;
  std::uint64_t call_ = 0;  // a thread works once for each number
  bool closing_ = false;
  std::vector<std::exception_ptr> errors_;

  std::vector<std::thread> threads_;
};

/// `count` threads of the calling thread's own, which share its OpenMP team; made at the first such call, and kept
/// until it ends. All blocks of a network use the same ones.
///
/// REQUIRES: count <= omp_get_max_threads()
DeviceThreads& threads_of_caller(int count);

}  // namespace ringrad
