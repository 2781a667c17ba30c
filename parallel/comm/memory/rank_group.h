// RankGroup: one rank's view of what the ranks of a machine share: a line of counters per rank, and
// one failure. The state lies in memory shared by all ranks (group_memory.h), threads or processes.
//
//     rank 0 [ progress | call | call ] [ places ]     one cache line per rank, written only by its
//     rank 1 [ progress | call | call ] [ places ]     owner and read by all ranks, and a second
//       ...             ^ even # ^ odd #               line of memory that calls use
//     failure: the rank that reported one first; each rank has space for its report
//
// Progress only grows. In collective #k it runs from base to base + 1 + steps: base + 1 means "I am
// in collective #k, and this is my call and my memory"; the rest counts steps (plan_program.h). A
// store of progress is a release, and other ranks load it with acquire: a rank that sees the new
// value also sees everything that was written before it.
//
// A rank sees every rank in #k + 1 before it leaves #k + 1. So two places for calls suffice: no
// rank still reads #k when another writes #k + 2.
//
// A rank that fails leaves its collective early, and its caller may free the tensors. So a rank is
// `inside` while it may touch memory of others, and a failing rank waits until the others are out.
// This takes microseconds, since a broken group ends all other waits. A process that stays inside
// could write to the others' memory later, so they kill it: half of GroupOptions::verdict_time
// after they see that SIGSTOP has stopped it, otherwise (also under a debugger) after
// GroupOptions::silence.
//
// README.md says more: "How a rank waits".

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/memory/group_memory.h"
#include "ringrad/parallel/comm/memory/group_state.h"

namespace ringrad {

class RankGroup {
 public:
  static constexpr std::size_t kEagerBytes = 1024;

  /// The size of the shared memory in bytes, and its initialisation, which one rank must do before
  /// any other reads it.
  static std::size_t shared_bytes(int world_size);
  static void make_shared(std::byte* shared, int world_size);

  /// REQUIRES: memory->shared() was made for this world_size
  RankGroup(int rank, int world_size, std::shared_ptr<GroupMemory> memory,
            const GroupOptions& options);

  int world_size() const { return world_size_; }
  /// The number of a rank in the job, for messages.
  int name(int rank) const { return names_(rank); }
  GroupMemory& memory() const { return *memory_; }

  /// Converts between addresses in a rank's memory and distances from its base, which are valid on
  /// all ranks.
  std::byte* address(int rank, std::uintptr_t distance) const {
    return reinterpret_cast<std::byte*>(memory_->base_of(rank) + distance);
  }
  std::uintptr_t distance(int rank, const std::byte* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - memory_->base_of(rank);
  }

  // --- Progress ---

  /// Enters a collective: writes this rank's call and places, then publishes `progress`.
  void enter(const CollectiveCall& call, const PlaceNames& places, std::uint64_t progress);
  void publish(std::uint64_t progress) {
    own_->progress.store(progress, std::memory_order_release);
    wake_waiting();
  }
  /// Wakes ranks that sleep until this rank makes progress.
  void wake_waiting() {
    if (own_->num_sleepers.load(std::memory_order_relaxed) > 0) [[unlikely]]
      wake_sleepers();
  }

  // What another rank wrote when it entered this rank's current collective.
  const CollectiveCall& call_of(int rank) const { return ranks_[rank].calls[slot()]; }
  std::uintptr_t buffer_of(int rank) const { return ranks_[rank].places[slot()].buffer; }
  std::uintptr_t staging_of(int rank) const { return ranks_[rank].places[slot()].staging; }
  const PlaceNames& places_of(int rank) const { return ranks_[rank].places[slot()]; }

  /// The eager message (kEagerBytes) of this rank's next entry, and that of another rank's latest
  /// entry.
  std::byte* next_eager() const { return eager(rank_, (num_entries_ + 1) % 2); }
  const std::byte* eager_of(int rank) const { return eager(rank, slot()); }

  /// Returns once `peer` has published `progress`. `entered` is the least that a rank publishes
  /// when it enters the collective, so that an error can list the ranks that never entered.
  /// Throws: CollectiveError if the group is broken, the peer has left, or the deadline passes
  void wait(Operation& operation, int peer, std::uint64_t progress, std::uint64_t entered) {
    if (ranks_[peer].progress.load(std::memory_order_acquire) < progress) [[unlikely]]
      wait_long(operation, peer, progress, entered);
  }

  /// Waits until `peer` makes `ready()` true. Returns false when the deadline has passed.
  /// Throws: CollectiveError if the group is broken or the peer has left
  template <class Ready>
  bool wait_until(Operation& operation, int peer, Ready ready) {
    Pause pause(*this, operation, peer);
    while (!ready()) {
      if (pause.peer_had_left()) fail_left(operation, peer);
      if (pause.once()) continue;
      report_deaths();  // what has died is not late
      check_whole(operation);
      return false;
    }
    return true;
  }

  /// True if `peer` has published `progress`.
  bool has_published(int peer, std::uint64_t progress) const {
    return ranks_[peer].progress.load(std::memory_order_acquire) >= progress;
  }

  // --- Staying ---

  /// Lives while this rank may access memory of other ranks, or they may access this rank's.
  class Inside {
   public:
    /// Throws: CollectiveError if the group is broken
    Inside(RankGroup& group, const Operation& operation);

    /// After an exception: breaks the group, and returns when all ranks are out or killed.
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    RankGroup& group_;
    const Unwinding unwinding_;
  };

  // --- Failure ---

  /// Breaks the group unless it is broken already. `text` tells the other ranks why. Thread-safe.
  void fail(const std::string& text) noexcept { report_failure(rank_, text); }

  /// Breaks the group with a failure of `culprit`, which may be kNobody, and throws CollectiveError
  /// with `text`, which starts with the operation.
  [[noreturn]] void fail_and_throw(const Operation& operation, int culprit,
                                   const std::string& text);

  /// For a message whose peer has entered the collective that publishes `next_entry` instead. The
  /// peer waits there for this rank, so neither call can end. Waits a moment for the other ranks,
  /// so that the majority tells which call is the odd one, and fails as above.
  [[noreturn]] void fail_mixed(const Operation& operation, std::uint64_t next_entry);

  void check_whole(const Operation& operation) const {
    if (shared_->first_report.load(std::memory_order_acquire) >= 0) [[unlikely]]
      throw_broken(operation);
  }

  /// After a failure: returns once no other process can write to this rank's memory. Treats ranks
  /// inside a call as ~Inside does; kills `ranks` at once. Throws: CollectiveError if a process
  /// outlives SIGKILL by `silence`
  void shut_out(std::span<const int> ranks, Where where);

  /// Breaks the group if the process of a rank that has not left has ended. Thread-safe.
  void report_deaths() noexcept;
  /// The same, at most once in 20 ms: each look is a system call per rank.
  void watch_for_deaths(std::chrono::steady_clock::time_point now) noexcept;

  /// The first rank whose process is stopped. Returns `otherwise` if that rank's process is
  /// stopped, or if no process is. Ranks that have left do not count.
  int first_stopped(int otherwise) const;

  /// The rank that broke the group; -1 while it is whole; this rank if the culprit is unknown.
  int failed_rank() const noexcept;

  /// Declares that this rank makes no more calls. Waiting for it is an error from now on.
  void leave() { own_->left.store(true, std::memory_order_release); }

  /// True once a rank has called leave(); lies in the memory that the ranks share.
  const std::atomic<bool>& has_left(int rank) const { return ranks_[rank].left; }

  double deadline_s() const { return std::chrono::duration<double>(deadline_).count(); }

 private:
  std::size_t slot() const { return num_entries_ % 2; }

  // The rounds of one wait, each longer than the one before.
  class Pause {
   public:
    Pause(RankGroup& group, Operation& operation, int peer)
        : group_(group), operation_(operation), peer_(peer) {}

    // Returns false when the deadline has passed; throws if the group is broken.
    bool once();

    // True if the peer had left when the latest round began, so that it publishes nothing more.
    bool peer_had_left() const { return left_; }

   private:
    bool deadline_passed(std::chrono::steady_clock::time_point now);

    RankGroup& group_;
    Operation& operation_;
    int peer_;
    int num_spins_ = 0;
    std::chrono::steady_clock::time_point sleep_from_{};  // until then it yields
    bool left_ = false;
  };

  std::byte* eager(int rank, std::size_t slot) const {
    return eager_ + (2 * static_cast<std::size_t>(rank) + slot) * kEagerBytes;
  }
  FailureReport& report_of(int rank) const;
  void report_failure(int culprit, const std::string& text) noexcept;
  void tell_launcher() const noexcept;
  std::vector<int> ranks_not_at(std::uint64_t progress) const;
  void wake_sleepers();
  void sleep_on(int peer, std::chrono::nanoseconds longest);
  void wait_long(Operation& operation, int peer, std::uint64_t progress, std::uint64_t entered);
  bool is_inside(int rank) const;
  struct Stay;
  bool is_awaited(int rank, Stay& stay) noexcept;
  void wait_until_all_are_out() noexcept;
  [[noreturn]] void fail_late(const Operation& operation, int peer, std::uint64_t entered);
  [[noreturn]] void fail_left(const Operation& operation, int peer);
  [[noreturn]] void throw_broken(const Operation& operation) const;

  const int rank_, world_size_;
  const std::shared_ptr<GroupMemory> memory_;
  const std::chrono::nanoseconds deadline_, silence_, verdict_time_;
  const RankNames names_;
  const int num_spins_;
  GroupFailure* const shared_;
  RankState* const ranks_;  // (world_size)
  RankState* const own_;
  std::byte* const eager_;  // (world_size, 2, kEagerBytes)
  std::uint64_t num_entries_ = 0;
  std::mutex report_mutex_;
  bool has_reported_ = false;                                 // guarded by report_mutex_
  std::atomic<std::chrono::steady_clock::rep> next_look_{0};  // at the processes
};

}  // namespace ringrad
