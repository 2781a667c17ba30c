#include "parallel/comm/rank_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <new>
#include <thread>
#include <vector>

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

// A peer on another processor answers within a microsecond; a spin lasts about 10, then the peer is
// not running, or is busy with something longer. With more ranks than processors, spinning would
// keep the very rank away that is waited for.
constexpr int kSpins = 200;

// The skew between ranks that do equal work. After that, sleeping costs little compared to what is being
// waited for.
constexpr auto kYieldTime = std::chrono::milliseconds(1);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);

// How long a rank that fails waits for a process that may have been stopped inside.
constexpr auto kLongestStay = std::chrono::milliseconds(500);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A futex is 32 bits wide: the half of the counter that changes.
std::uint32_t* low_half(std::atomic<std::uint64_t>& counter) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<std::uint32_t*>(&counter);
}

}  // namespace

std::size_t RankGroup::shared_bytes(int world_size) {
  const auto n = static_cast<std::size_t>(world_size);
  return sizeof(Shared) + n * (sizeof(RankState) + sizeof(Report) + 2 * kLetterBytes);
}

void RankGroup::make_shared(std::byte* shared, int world_size) {
  new (shared) Shared;
  auto* ranks = reinterpret_cast<RankState*>(shared + sizeof(Shared));
  auto* reports = reinterpret_cast<Report*>(ranks + world_size);
  for (int r = 0; r < world_size; ++r) {
    new (ranks + r) RankState;
    new (reports + r) Report;
  }
}

RankGroup::RankGroup(int rank, int world_size, std::shared_ptr<GroupMemory> memory,
                     std::chrono::nanoseconds deadline)
    : rank_(rank),
      world_size_(world_size),
      memory_(std::move(memory)),
      deadline_(deadline),
      num_spins_(world_size <= memory_->num_processors() ? kSpins : 0),
      shared_(reinterpret_cast<Shared*>(memory_->shared())),
      ranks_(reinterpret_cast<RankState*>(memory_->shared() + sizeof(Shared))),
      own_(ranks_ + rank),
      letters_(memory_->shared() + sizeof(Shared) +
               static_cast<std::size_t>(world_size) * (sizeof(RankState) + sizeof(Report))) {}

RankGroup::Report& RankGroup::report_of(int rank) const {
  return reinterpret_cast<Report*>(ranks_ + world_size_)[rank];
}

void RankGroup::enter(const CollectiveCall& call, const PlaceNames& places,
                      std::uint64_t progress) {
  ++num_entries_;
  own_->entries[slot()] = {call, places.buffer};
  own_->beside[slot()] = places.beside;
  publish(progress);
}

// --- Waiting ---

bool RankGroup::Pause::once() {
  group_.check_whole(operation_);
  if (num_spins_ < group_.num_spins_) {
    ++num_spins_;
    relax();
    return true;
  }
  left_ = group_.ranks_[peer_].left.load(std::memory_order_acquire);
  const auto now = Clock::now();
  if (deadline_passed(now)) return false;
  if (sleep_from_ == Clock::time_point()) sleep_from_ = now + kYieldTime;
  if (now < sleep_from_) {
    std::this_thread::yield();
  } else {
    group_.report_deaths();
    group_.sleep_on(peer_);
  }
  return true;
}

bool RankGroup::Pause::deadline_passed(Clock::time_point now) {
  if (!operation_.deadline) {
    const auto left = Clock::time_point::max() - now;  // a longer deadline would overflow
    operation_.deadline = now + std::min<Clock::duration>(group_.deadline_, left);
  }
  return now >= *operation_.deadline;
}

void RankGroup::wait_long(Operation& operation, int peer, std::uint64_t progress,
                          std::uint64_t entered) {
  const bool in_time = wait_until(operation, peer, [&] {
    return ranks_[peer].progress.load(std::memory_order_acquire) >= progress;
  });
  if (!in_time) fail_late(operation, peer, entered);
}

void RankGroup::sleep_on(int peer) {
  RankState& state = ranks_[peer];
  state.num_sleepers.fetch_add(1, std::memory_order_relaxed);
  const auto seen = static_cast<std::uint32_t>(state.progress.load(std::memory_order_relaxed));
  const timespec longest{0, std::chrono::nanoseconds(kLongestSleep).count()};
  syscall(SYS_futex, low_half(state.progress), FUTEX_WAIT, seen, &longest, nullptr, 0);
  state.num_sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void RankGroup::wake_sleepers() {
  syscall(SYS_futex, low_half(own_->progress), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr,
          nullptr, 0);
}

// --- Staying ---

// Either this rank sees the failure here, or the rank that failed sees this one inside: both write
// before they read, in one order for all.
RankGroup::Inside::Inside(RankGroup& group, const Operation& operation)
    : group_(group), exceptions_before_(std::uncaught_exceptions()) {
  group_.own_->inside.store(true, std::memory_order_seq_cst);
  if (group_.shared_->first_report.load(std::memory_order_seq_cst) >= 0) {
    group_.own_->inside.store(false, std::memory_order_release);
    group_.throw_broken(operation);
  }
}

RankGroup::Inside::~Inside() {
  group_.own_->inside.store(false, std::memory_order_seq_cst);
  if (std::uncaught_exceptions() == exceptions_before_) return;
  group_.fail("left a collective before its end");
  // To leave earlier would hand memory back that others still use. They look at the failure before each
  // chunk, and wait for nobody after it. A thread cannot be stopped alone, so there is no end to the wait
  // for one.
  const auto end = Clock::now() + kLongestStay;
  while (group_.anybody_inside() && (group_.memory_->is_one_process() || Clock::now() < end))
    std::this_thread::yield();
}

bool RankGroup::anybody_inside() const {
  for (int r = 0; r < world_size_; ++r)
    if (ranks_[r].inside.load(std::memory_order_seq_cst) && !memory_->has_died(r)) return true;
  return false;
}

// --- Failure ---

// The place of a rank is written once, before the one store that makes it known. So a rank that dies while it
// reports leaves nothing half said, and another one reports its death.
void RankGroup::report_failure(int culprit, const std::string& text) noexcept {
  const std::lock_guard lock(report_mutex_);
  if (has_reported_ || shared_->first_report.load(std::memory_order_acquire) >= 0) return;
  has_reported_ = true;
  Report& report = report_of(rank_);
  report.culprit = culprit;
  const std::size_t length = std::min(text.size(), report.text.size() - 1);
  std::memcpy(report.text.data(), text.data(), length);
  report.text[length] = '\0';
  int nobody = -1;
  shared_->first_report.compare_exchange_strong(nobody, rank_, std::memory_order_seq_cst);
}

void RankGroup::report_deaths() noexcept {
  for (int r = 0; r < world_size_; ++r)
    if (r != rank_ && !ranks_[r].left.load(std::memory_order_acquire) && memory_->has_died(r))
      report_failure(r, "it has died");
}

void RankGroup::fail_and_throw(const Operation& operation, const std::string& text) {
  fail(text);
  throw CollectiveError(text, operation.where);
}

void RankGroup::fail_late(const Operation& operation, int peer, std::uint64_t entered) {
  std::vector<int> absent;
  for (int r = 0; r < world_size(); ++r)
    if (ranks_[r].progress.load(std::memory_order_acquire) < entered) absent.push_back(r);
  if (absent.empty())
    fail_and_throw(operation, concat(operation, ": every rank must finish within ", deadline_s(),
                                     " s; got no progress from rank ", peer));
  fail_and_throw(operation, concat(operation, ": every rank must arrive within ", deadline_s(),
                                   " s; got no call from ", list_ranks(absent)));
}

void RankGroup::fail_left(const Operation& operation, int peer) {
  fail_and_throw(operation, concat(operation, ": every rank must take part; got rank ", peer,
                                   ", which has left the group"));
}

void RankGroup::throw_broken(const Operation& operation) const {
  const Report& report = report_of(shared_->first_report.load(std::memory_order_acquire));
  throw CollectiveError(concat(operation, ": the group must be whole; got a failure of rank ",
                               report.culprit, ": ", report.text.data()),
                        operation.where);
}

int RankGroup::failed_rank() const noexcept {
  const int reporter = shared_->first_report.load(std::memory_order_acquire);
  return reporter < 0 ? -1 : report_of(reporter).culprit;
}

}  // namespace ringrad
