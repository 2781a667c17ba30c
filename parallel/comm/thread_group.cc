#include "parallel/comm/thread_group.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <ostream>
#include <thread>

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

// A peer on another processor answers within a microsecond; a spin lasts about 10, then the peer is
// not running, or is busy with something longer. With more ranks than processors, spinning would
// keep the very rank away that is waited for.
constexpr int kSpins = 200;

// About a millisecond of yields: the skew between ranks that do equal work. After that, sleeping
// costs little compared to what is being waited for.
constexpr int kYields = 1000;
constexpr auto kSleep = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int processors() {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

ThreadGroup::ThreadGroup(int world_size, std::chrono::nanoseconds deadline)
    : ranks_(world_size),
      deadline_(deadline),
      num_spins_(world_size <= processors() ? kSpins : 0) {}

void ThreadGroup::enter(int rank, std::uint64_t sequence, const CollectiveCall& call,
                        const RankMemory& memory, std::uint64_t progress) {
  ranks_[rank].entries[sequence % 2] = {call, memory.buffer};
  if (memory.beside != nullptr) ranks_[rank].beside[sequence % 2] = memory.beside;
  publish(rank, progress);
}

// --- Waiting ---

bool ThreadGroup::Pause::once() {
  group_.check_whole(operation_);
  if (round_ < group_.num_spins_) {
    ++round_;
    relax();
    return true;
  }
  left_ = group_.ranks_[peer_].left.load(std::memory_order_acquire);
  if (deadline_passed()) return false;
  if (round_ < group_.num_spins_ + kYields) {
    ++round_;
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
  return true;
}

bool ThreadGroup::Pause::deadline_passed() {
  const auto now = Clock::now();
  if (!operation_.deadline) {
    const auto left = Clock::time_point::max() - now;  // a longer deadline would overflow
    operation_.deadline = now + std::min<Clock::duration>(group_.deadline_, left);
  }
  return now >= *operation_.deadline;
}

void ThreadGroup::wait_long(Operation& operation, int peer, std::uint64_t progress,
                            std::uint64_t entered) {
  const bool in_time = wait_until(operation, peer, [&] {
    return ranks_[peer].progress.load(std::memory_order_acquire) >= progress;
  });
  if (!in_time) fail_late(operation, peer, entered);
}

// --- Memory ---

// Either this rank sees the failure here, or the rank that failed sees this one inside: both write
// before they read, in one order for all.
ThreadGroup::Inside::Inside(ThreadGroup& group, const Operation& operation)
    : group_(group), rank_(operation.rank), exceptions_before_(std::uncaught_exceptions()) {
  group_.ranks_[rank_].inside.store(true, std::memory_order_seq_cst);
  if (group_.failed_.load(std::memory_order_seq_cst)) {
    group_.ranks_[rank_].inside.store(false, std::memory_order_release);
    group_.throw_broken(operation);
  }
}

ThreadGroup::Inside::~Inside() {
  group_.ranks_[rank_].inside.store(false, std::memory_order_seq_cst);
  if (std::uncaught_exceptions() == exceptions_before_) return;
  group_.fail(rank_, "left a collective before its end");
  // No deadline: to leave earlier would hand memory back that others still use. They look at the
  // failure before each chunk, and wait for nobody after it.
  while (group_.anybody_inside()) std::this_thread::yield();
}

bool ThreadGroup::anybody_inside() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& rank) {
    return rank.inside.load(std::memory_order_seq_cst);
  });
}

// --- Failure ---

void ThreadGroup::fail(int rank, const std::string& text) noexcept {
  const std::lock_guard lock(failure_mutex_);
  if (failed_rank_ >= 0) return;
  failed_rank_ = rank;
  try {
    failure_ = text;
  } catch (...) {  // no memory for the text: the rank alone must do
  }
  failed_.store(true, std::memory_order_seq_cst);
}

void ThreadGroup::fail_and_throw(const Operation& operation, const std::string& text) {
  fail(operation.rank, text);
  throw CollectiveError(text, operation.where);
}

void ThreadGroup::fail_late(const Operation& operation, int peer, std::uint64_t entered) {
  std::vector<int> absent;
  for (int r = 0; r < world_size(); ++r)
    if (ranks_[r].progress.load(std::memory_order_acquire) < entered) absent.push_back(r);
  if (absent.empty())
    fail_and_throw(operation, concat(operation, ": every rank must finish within ", deadline_s(),
                                     " s; got no progress from rank ", peer));
  fail_and_throw(operation, concat(operation, ": every rank must arrive within ", deadline_s(),
                                   " s; got no call from ", list_ranks(absent)));
}

void ThreadGroup::fail_left(const Operation& operation, int peer) {
  fail_and_throw(operation, concat(operation, ": every rank must take part; got rank ", peer,
                                   ", which has left the group"));
}

void ThreadGroup::throw_broken(const Operation& operation) const {
  const std::lock_guard lock(failure_mutex_);
  throw CollectiveError(concat(operation, ": the group must be whole; got a failure of rank ",
                               failed_rank_, ": ", failure_),
                        operation.where);
}

int ThreadGroup::failed_rank() const noexcept {
  const std::lock_guard lock(failure_mutex_);
  return failed_rank_;
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << operation.call << " #" << operation.sequence << " on rank " << operation.rank;
}

}  // namespace ringrad
