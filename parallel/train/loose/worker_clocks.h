// WorkerClocks: how many steps each worker has done, and which workers may begin the next one.
//
//     clock    worker 0  | # # # # # |      staleness = 2: worker 0 is 2 ahead of the slowest, and
//              worker 1  | # # # #   |      may begin a step; 3 ahead, it would wait. A worker that
//              worker 2  | # # #     |      has left is not waited for
//              worker 3  | # left    |
//
// The rule of the stale synchronous parallel model: a worker may begin a step if the slowest worker
// is at most `staleness` behind it. So no clock is ever more than staleness + 1 ahead of another.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ringrad {

class WorkerClocks {
 public:
  explicit WorkerClocks(int num_workers) : workers_(static_cast<std::size_t>(num_workers)) {}

  /// advance: the worker has done a step. leave: it makes no more steps.
  void advance(int worker) { ++at(worker).clock; }
  void leave(int worker) {
    at(worker).is_here = false;
    --num_here_;
  }

  std::int64_t clock(int worker) const { return at(worker).clock; }
  bool is_here(int worker) const { return at(worker).is_here; }
  int num_here() const { return num_here_; }

  /// How far the worker is ahead of the slowest remaining worker.
  ///
  /// REQUIRES: is_here(worker)
  std::int64_t lead(int worker) const {
    std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
    for (const Worker& each : workers_)
      if (each.is_here) slowest = std::min(slowest, each.clock);
    return clock(worker) - slowest;
  }

 private:
  struct Worker {
    std::int64_t clock = 0;
    bool is_here = true;
  };

  Worker& at(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  const Worker& at(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }

  std::vector<Worker> workers_;
  int num_here_ = static_cast<int>(workers_.size());
};

}  // namespace ringrad
