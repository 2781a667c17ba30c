// ThreadGroup: what the ranks of one process share: a line of counters per rank, and one failure.
//
//     rank 0 [ progress | call, buffer | call, buffer ]     one cache line per rank, written by its
//     rank 1 [ progress | call, buffer | call, buffer ]     owner only and read by everyone
//       ...                ^ even #      ^ odd #            (what few plans need lies in a second)
//     failure: none, or who and why; set once
//
// Progress only grows. In collective #k it runs from base to base + 1 + steps: base + 1 says "I am
// in collective #k, and this is my call and my memory"; the rest counts steps (plan_program.h). A
// store of progress releases everything its rank has written so far, and a load that sees it
// acquires that.
//
// A rank that is in #k + 1 has seen every rank in #k + 1 before it leaves it, hence two places for
// calls suffice: nobody still reads #k when a rank writes #k + 2.
//
// A rank that fails leaves its collective early, and its caller may free the tensors. So a rank is
// `inside` while it may touch memory of others, and one that fails stays until the others are out:
// a matter of microseconds, since nobody waits for anybody once the group is broken.
//
// Waiting is a short spin, then yielding the processor, then short sleeps; every round looks at the
// failure, and every yielding round at the clock.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/collective_call.h"

namespace ringrad {

/// One call on one rank, for deadlines and messages.
struct Operation {
  CollectiveCall call;
  int rank;
  std::uint64_t sequence;  ///< 1 for a rank's first collective, or first message on a channel
  Where where;
  std::optional<std::chrono::steady_clock::time_point> deadline;  ///< set at the first long wait
};

/// Where a rank's data of one collective lie (plan_program.h).
struct RankMemory {
  std::byte* buffer = nullptr;
  std::byte* beside = nullptr;
};

class ThreadGroup {
 public:
  ThreadGroup(int world_size, std::chrono::nanoseconds deadline);

  int world_size() const { return static_cast<int>(ranks_.size()); }

  // --- Progress ---

  /// A rank's entry into a collective: writes its call and memory, then publishes `progress`.
  void enter(int rank, std::uint64_t sequence, const CollectiveCall& call, const RankMemory& memory,
             std::uint64_t progress);
  void publish(int rank, std::uint64_t progress) {
    ranks_[rank].progress.store(progress, std::memory_order_release);
  }

  const CollectiveCall& call_of(int rank, std::uint64_t sequence) const {
    return ranks_[rank].entries[sequence % 2].call;
  }
  std::byte* buffer_of(int rank, std::uint64_t sequence) const {
    return ranks_[rank].entries[sequence % 2].buffer;
  }
  /// REQUIRES: the rank entered with memory beside its buffer
  std::byte* beside_of(int rank, std::uint64_t sequence) const {
    return ranks_[rank].beside[sequence % 2];
  }

  /// Returns once `peer` has published `progress`; `entered` is what a rank publishes at least when
  /// it enters the collective, so that an error can list who never came.
  ///
  /// Throws: CollectiveError if the group is broken, the peer has left, or the deadline passes
  void wait(Operation& operation, int peer, std::uint64_t progress, std::uint64_t entered) {
    if (ranks_[peer].progress.load(std::memory_order_acquire) < progress) [[unlikely]]
      wait_long(operation, peer, progress, entered);
  }

  /// Waits until `ready()`, which `peer` brings about. False when the deadline has passed.
  ///
  /// Throws: CollectiveError if the group is broken or the peer has left
  template <class Ready>
  bool wait_until(Operation& operation, int peer, Ready ready) {
    Pause pause(*this, operation, peer);
    while (!ready()) {
      if (pause.peer_had_left()) fail_left(operation, peer);
      if (!pause.once()) return false;
    }
    return true;
  }

  // --- Memory ---

  /// Lives while a rank may read or write memory of other ranks, or they its own.
  class Inside {
   public:
    /// Throws: CollectiveError if the group is broken
    Inside(ThreadGroup& group, const Operation& operation);

    /// After an exception: breaks the group, and returns when all ranks are out.
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    ThreadGroup& group_;
    const int rank_;
    const int exceptions_before_;
  };

  // --- Failure ---

  /// Breaks the group unless it is broken already. `text` tells the other ranks why.
  void fail(int rank, const std::string& text) noexcept;

  /// Breaks the group and throws CollectiveError with `text`, which starts with the operation.
  [[noreturn]] void fail_and_throw(const Operation& operation, const std::string& text);

  void check_whole(const Operation& operation) const {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_broken(operation);
  }

  /// The rank whose failure broke the group, or -1.
  int failed_rank() const noexcept;

  /// The rank makes no more calls. Waiting for it is an error from now on.
  void leave(int rank) { ranks_[rank].left.store(true, std::memory_order_release); }

  /// In seconds.
  double deadline_s() const { return std::chrono::duration<double>(deadline_).count(); }

 private:
  struct Entry {
    CollectiveCall call;
    std::byte* buffer = nullptr;
  };
  // 128 bytes: processors fetch cache lines in pairs. What is polled has one of them to itself.
  struct alignas(128) RankState {
    std::atomic<std::uint64_t> progress{0};
    std::array<Entry, 2> entries;
    alignas(64) std::atomic<bool> inside{false};
    std::atomic<bool> left{false};
    std::array<std::byte*, 2> beside{};
  };
  static_assert(sizeof(RankState) == 128);

  // The rounds of one wait, longer as they go by.
  class Pause {
   public:
    Pause(ThreadGroup& group, Operation& operation, int peer)
        : group_(group), operation_(operation), peer_(peer) {}

    // False when the deadline has passed; throws if the group is broken.
    bool once();

    // True if the peer had left when the latest round began: what is not there now never will be.
    bool peer_had_left() const { return left_; }

   private:
    bool deadline_passed();

    ThreadGroup& group_;
    Operation& operation_;
    int peer_;
    int round_ = 0;
    bool left_ = false;
  };

  void wait_long(Operation& operation, int peer, std::uint64_t progress, std::uint64_t entered);
  bool anybody_inside() const;
  [[noreturn]] void fail_late(const Operation& operation, int peer, std::uint64_t entered);
  [[noreturn]] void fail_left(const Operation& operation, int peer);
  [[noreturn]] void throw_broken(const Operation& operation) const;

  std::vector<RankState> ranks_;
  const std::chrono::nanoseconds deadline_;
  const int num_spins_;

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;  // guards the two below
  int failed_rank_ = -1;
  std::string failure_;
};

/// "all_reduce(sum, float32, 8 elements) #3 on rank 0"
std::ostream& operator<<(std::ostream& out, const Operation& operation);

}  // namespace ringrad
