// Block: runs the threads of one block of a kernel, on one CPU.
//
// A thread that never waits needs no stack of its own, so one fiber runs thread after thread. Only
// when a thread waits is its fiber set aside, and another fiber continues with the next thread:
//
//     fiber 1   thread 0 ... __syncthreads()         set aside
//     fiber 2   thread 1 ... __syncthreads()         set aside
//     fiber 3   thread 2 ... __syncthreads()         the last to come: the others are ready again,
//               thread 2 ... return                  and this one goes on
//     fiber 1   thread 0 ... return
//     fiber 2   thread 1 ... return
//
// Hence a kernel without barriers never switches, no thread runs twice, and the order is the same
// in every run. Threads that are ready go before threads that have not begun.
//
// What a thread may wait for:
//   a barrier or a warp's exchange     other threads of this block; if all wait, that is a deadlock
//   spin()                             anything; run() returns then, and tries again when called
//
// A fault stops the block at once: its threads are dropped, and no destructor runs.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringrad/sim/device/warp.h"
#include "ringrad/sim/fiber.h"
#include "ringrad/sim/kernel.h"
#include "ringrad/sim/racecheck/access_order.h"
#include "ringrad/sim/shared_memory.h"
#include "ringrad/sim/thread_pool.h"

namespace ringrad::sim {

class Block {
 public:
  enum class State { finished, spinning, failed };

  explicit Block(ThreadPool& pool);
  ~Block();

  /// Makes this object block `index` of the kernel, before any of its threads has run. The kernel
  /// must outlive it.
  void begin(const Kernel& kernel, std::uint64_t index);

  /// Runs until all threads have returned, all remaining threads are in spin(), or a thread faults.
  State run();

  /// Abandons its threads wherever they are.
  void abandon();

  const Kernel& kernel() const { return *kernel_; }
  uint3 index() const { return index_; }
  /// REQUIRES: run() has returned State::failed
  const Fault& fault() const { return fault_; }
  /// Where its threads wait: "block (0, 0, 0): 1 of 64 threads has returned, 63 wait in
  /// __syncthreads() at softmax.cu:41, e.g. thread (1, 0, 0)".
  std::string describe() const;
  /// Grows when threads return, change memory atomically, or meet without having spun since they
  /// last met. Spinning does not increase it.
  std::uint64_t progress() const { return progress_; }

  // --- For the thread that runs ------------------------------------------------------------------

  /// The block whose thread runs now; null outside of run().
  static Block* current();
  /// The thread that runs now.
  Thread& thread() const { return *thread_; }
  /// "kernel 'softmax' on device 0, block (3, 0, 0), thread (17, 0, 0)"
  std::string describe_thread() const;
  /// The thread that made an access in this launch: "block (3, 0, 0), thread (17, 0, 0)".
  std::string describe_thread(const Access& access) const;

  /// Waits for all threads of the block; returns how many of them passed a vote other than 0.
  int barrier(bool vote, const char* operation, Site site);

  /// Waits for all existing lanes of the mask, which must make the same call; returns the values
  /// that they passed. The values stay valid until this lane's next call but one.
  Exchanged exchange(std::uint32_t mask, std::uint64_t value, const char* operation, Site site);
  /// Waits for the same lanes. Orders their accesses to memory, which an exchange does not.
  void sync_warp(std::uint32_t mask, Site site);
  /// Lanes of this warp that have not returned.
  std::uint32_t active_lanes() const;
  unsigned lane() const { return thread_->index % kWarpSize; }

  /// Lets all other work run before it returns.
  void spin(Site site);
  void note_progress() { ++progress_; }

  void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment);
  void* dynamic_shared() { return shared_.dynamic(); }

  /// Stops the block. `message` is called afterwards, on the stack of run(), because objects on a
  /// thread's own stack are never destroyed.
  [[noreturn]] void fail(cudaError_t error, std::function<std::string()> message);

 private:
  friend Thread::Thread(bool guarded);

  // A meeting of lanes. A lane can be at most one meeting ahead of the slowest lane of the same
  // mask, so two sets of values are enough.
  struct Meeting {
    std::uint32_t mask = 0;
    std::uint32_t arrived = 0;
    unsigned generation = 0;
    const char* operation = nullptr;
    std::size_t number = 0;  // index within the warp: selects its cells for ThreadSanitizer
    ThreadList waiting;
    std::array<std::array<std::uint64_t, kWarpSize>, 2> values;
  };
  struct Warp {
    std::uint32_t existing = 0;  // lanes
    std::uint32_t returned = 0;
    bool spun = false;                              // since it last met
    Meeting all;                                    // of all existing lanes
    std::vector<std::unique_ptr<Meeting>> partial;  // of other masks; mask 0: free
  };
  struct Barrier {
    unsigned arrived = 0;
    unsigned generation = 0;
    Site site;
    std::array<int, 2> votes{};  // of this generation and the one before
    ThreadList waiting;
  };

  static void run_threads();
  void run_one_thread(Thread& thread);
  Thread* next_thread();
  void enter(Thread& thread);
  void switch_from(Thread& thread);
  void wait_in(ThreadList& list, const char* operation, Site site);
  Meeting& meeting_of(Warp& warp, std::uint32_t mask);
  const SyncCell& sync_cell(std::size_t group, unsigned generation) const;
  [[noreturn]] void fail_divergence(const char* operation, Site site);

  ThreadPool& pool_;
  Fiber* caller_ = nullptr;  // the stack of run()
  Thread* thread_ = nullptr;
  const Kernel* kernel_ = nullptr;
  uint3 index_{};
  unsigned num_threads_ = 0, num_begun_ = 0, num_returned_ = 0;
  std::uint64_t progress_ = 0;
  bool spun_ = false;  // since the last barrier
  uint3 next_id_{};    // of the thread that begins next
  bool failed_ = false;
  Fault fault_;
  std::function<std::string()> fault_message_;
  ThreadList ready_, spinning_;
  Barrier barrier_;
  std::vector<Warp> warps_;
  SharedMemory shared_;
  AccessOrder order_;
  std::vector<SyncCell> sync_cells_;  // for ThreadSanitizer: two per barrier and per warp
};

}  // namespace ringrad::sim
