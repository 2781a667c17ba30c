// Prefetcher: threads make batches 0, 1, 2, ... ahead of the consumer, which takes them in that
// order.
//
//     made, waiting in slots      being made        not begun
//        4    5    .                6    7           8  9  10 ...      window = 5, 2 threads
//        ^ next()                                    ^ claimed by the next idle thread, once
//                                                      it is less than `window` ahead of next()
//
// Batch k waits in slot k mod window, so batches leave in order, whatever order they are finished
// in. Threads sleep while the window is full, and the consumer sleeps while its batch is being
// made; no thread polls. A wait lasts no longer than the making of a batch.
//
// An exception in a thread is kept in the slot and rethrown where the batch was due. Batches before
// it still come; none after it is begun.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/data/dataset.h"

namespace ringrad {

class Prefetcher {
 public:
  /// Makes a batch; gives none if there is no batch of this number and none after it.
  using Make = std::function<std::optional<Batch>(std::int64_t number)>;

  /// The threads call `make` once for every number in [0, count), or up to the first number for
  /// which it gives no batch. Without threads, next() calls `make`.
  /// Each thread has the default device of the calling thread, and records operations if that
  /// thread does. The threads divide the calling thread's OpenMP threads among themselves.
  /// REQUIRES: num_threads >= 0, window >= 1
  /// Throws:   ValueError, which names num_workers, if the system refuses a thread
  Prefetcher(std::int64_t count, Make make, int num_threads, std::int64_t window,
             Where where = Where::current());

  /// Ends the threads, each after its current batch.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch; empty after the last batch or after an error. Call from one thread at a time.
  /// Throws:  what `make` threw
  std::optional<Batch> next();

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool full = false;
  };

  Slot& slot(std::int64_t number) {
    return slots_[static_cast<std::size_t>(number) % slots_.size()];
  }
  Slot fill(std::int64_t number) const noexcept;
  void work();
  void close() noexcept;

  const Make make_;
  std::mutex mutex_;
  std::condition_variable slot_freed_, batch_made_;
  // Guarded by mutex_:
  std::int64_t end_;           ///< no batch from this number on will be begun
  std::int64_t claimed_ = 0;   ///< batches below it are made or being made
  std::int64_t consumed_ = 0;  ///< batches below it have left through next()
  std::vector<Slot> slots_;

  std::vector<std::thread> threads_;
};

}  // namespace ringrad
