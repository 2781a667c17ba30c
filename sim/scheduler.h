// Scheduler: runs the work that is queued on the simulated devices.
//
// Devices make progress only while a host thread waits for them: it then runs the scheduler itself,
// on its own CPU, until the work it waits for is done. So nothing happens in the background, each
// run takes the same course, and a missing synchronisation in the program shows stale data every
// time instead of once in a thousand runs. If several host threads wait, one runs the scheduler for
// all.
//
// The order, where the graph leaves a choice:
//   1. another block of a kernel that has begun         (one after the other, if they do not wait)
//   2. the op that became ready first                   (any, if there is a seed)
//   3. all blocks that spin, once each
// So a kernel that waits for another kernel, on any device, finds it running. If only spinning
// blocks are left and none of them makes progress for hang_limit (Block::progress), that is a
// deadlock, and the host's wait fails. After a fault on any device, a fraction of that limit is
// enough.
//
// A fault stops all kernels of its device, and nothing more runs there; an op on another device
// that depends on a stopped op also fails.
//
// Thread-safe.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringrad/sim/block.h"
#include "ringrad/sim/clock.h"
#include "ringrad/sim/memory.h"
#include "ringrad/sim/op.h"

namespace ringrad::sim {

struct SchedulerOptions {
  std::uint64_t seed = 0;  // 0: first come, first served
  std::chrono::milliseconds hang_limit{10'000};
};

class Scheduler {
 public:
  Scheduler(int num_devices, Memory& memory, Clock& clock, const SchedulerOptions& options);
  ~Scheduler();

  /// Queues an op after its predecessors, some of which may be done or null. It does not begin
  /// before `ahead`, the op in front of it in its hardware queue (null if there is none).
  void submit(const std::shared_ptr<Op>& op, const std::vector<std::shared_ptr<Op>>& predecessors,
              const std::shared_ptr<Op>& ahead = nullptr);

  /// Returns when the op is done.
  /// REQUIRES: !runs_here(), and for poll() as well
  void wait(std::shared_ptr<Op> op);
  /// Does one piece of work, if there is any; true if the op is done.
  bool poll(std::shared_ptr<Op> op);
  bool is_done(const Op& op) const;

  /// An op that is not done, uses this memory and does not come before `op`; null if there is none.
  std::shared_ptr<Op> find_use(const void* memory, const Op* op = nullptr) const;

  /// The first fault of a device. After a fault its ops are dropped.
  std::optional<Fault> fault(int device) const;
  void report_fault(int device, Fault fault);

  /// The ops that have run since the first call, in simulated time.
  std::vector<Clock::Event> record();

  /// True on a thread that runs the scheduler.
  static bool runs_here();

 private:
  using Duration = std::chrono::steady_clock::duration;

  // A kernel that has begun.
  struct Grid {
    std::shared_ptr<Op> op;
    std::uint64_t num_begun = 0, num_finished = 0;
    std::vector<std::unique_ptr<Block>> blocks;  // that spin
  };

  template <class Work>
  void run_as_scheduler(std::unique_lock<std::mutex>& lock, Work&& work);
  void run_until(const std::shared_ptr<Op>& op);
  bool begin_block();
  bool begin_op();
  void poll_blocks(const Op& awaited);
  bool run(Grid& grid, std::unique_ptr<Block>& block);
  void check_memory(const Op& op);
  void stop_device(int device, Fault fault);
  void stop_failed_devices();
  void stop_follower(const Op& op, Op& follower);
  void release_next(Op& op);
  void finish_grids();
  void fail_hung(const Op& awaited);
  std::string describe_held() const;
  std::string describe_not_resident() const;
  bool has_room_for_block_of(const Grid& grid) const;
  void finish(const std::shared_ptr<Op>& op);
  std::uint64_t random();

  const SchedulerOptions options_;
  Memory& memory_;
  Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  std::deque<std::shared_ptr<Op>> ready_;
  std::unordered_map<const Op*, std::shared_ptr<Op>> pending_;
  std::vector<std::optional<Fault>> faults_;  // by device
  std::uint64_t num_submitted_ = 0;

  // For the thread that runs the scheduler.
  ThreadPool threads_;
  std::vector<Grid> grids_;
  std::vector<std::unique_ptr<Block>> idle_blocks_;
  std::uint64_t random_state_;
  std::shared_ptr<Op> last_run_;  // whose block ran last
  std::uint64_t progress_ = 0, submitted_at_progress_ = 0;
  Duration idle_{};  // time spent on spinning blocks since the last progress
};

}  // namespace ringrad::sim
