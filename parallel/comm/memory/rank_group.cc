#include "ringrad/parallel/comm/memory/rank_group.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <thread>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/process_state.h"
#include "ringrad/parallel/comm/common/running_time.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

// A peer on another processor answers within a microsecond. All spins together take about 10; a
// peer that has not answered by then is not running, or does something longer. With more ranks than
// processors, a spinning rank may occupy the processor that its peer needs.
constexpr int kSpins = 200;

// The skew between ranks that do equal work. After that, sleeping costs little compared to what is
// being waited for.
constexpr auto kYieldTime = std::chrono::milliseconds(1);

// Progress wakes a sleeper; failures do not, and are looked for after a share of the time waited so
// far. With hundreds of ranks more looks would take the processors from those that all wait for.
constexpr int kSleepShare = 8;
constexpr auto kShortestSleep = std::chrono::milliseconds(1);
constexpr auto kLongestSleep = std::chrono::milliseconds(20);

// Between looks at the ranks that are still inside after a failure.
constexpr auto kLook = std::chrono::milliseconds(1);

// Between looks at the processes of the other ranks. n waiting ranks with n looks each at every
// round of their waits would take most of the processors' time with hundreds of ranks.
constexpr auto kDeathLook = std::chrono::milliseconds(20);

// How long after a mismatch the other ranks may take to show which calls they make, as a share of
// GroupOptions::verdict_time.
constexpr int kMajorityShare = 2;

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
  return sizeof(GroupFailure) + n * (sizeof(RankState) + sizeof(FailureReport) + 2 * kEagerBytes);
}

void RankGroup::make_shared(std::byte* shared, int world_size) {
  new (shared) GroupFailure;
  auto* ranks = reinterpret_cast<RankState*>(shared + sizeof(GroupFailure));
  auto* reports = reinterpret_cast<FailureReport*>(ranks + world_size);
  for (int r = 0; r < world_size; ++r) {
    new (ranks + r) RankState;
    new (reports + r) FailureReport;
  }
}

RankGroup::RankGroup(int rank, int world_size, std::shared_ptr<GroupMemory> memory,
                     const GroupOptions& options)
    : rank_(rank),
      world_size_(world_size),
      memory_(std::move(memory)),
      deadline_(options.deadline),
      silence_(longest_silence(options)),
      verdict_time_(options.verdict_time),
      names_(options.rank_names),
      num_spins_(world_size <= memory_->num_processors() ? kSpins : 0),
      shared_(reinterpret_cast<GroupFailure*>(memory_->shared())),
      ranks_(reinterpret_cast<RankState*>(memory_->shared() + sizeof(GroupFailure))),
      own_(ranks_ + rank),
      eager_(memory_->shared() + sizeof(GroupFailure) +
             static_cast<std::size_t>(world_size) * (sizeof(RankState) + sizeof(FailureReport))) {}

FailureReport& RankGroup::report_of(int rank) const {
  return reinterpret_cast<FailureReport*>(ranks_ + world_size_)[rank];
}

void RankGroup::enter(const CollectiveCall& call, const PlaceNames& places,
                      std::uint64_t progress) {
  ++num_entries_;
  own_->calls[slot()] = call;
  own_->places[slot()] = places;
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
    group_.watch_for_deaths(now);
    group_.sleep_on(peer_, std::clamp<Clock::duration>((now - sleep_from_) / kSleepShare,
                                                       kShortestSleep, kLongestSleep));
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

void RankGroup::sleep_on(int peer, std::chrono::nanoseconds longest) {
  RankState& state = ranks_[peer];
  state.num_sleepers.fetch_add(1, std::memory_order_relaxed);
  const auto seen = static_cast<std::uint32_t>(state.progress.load(std::memory_order_relaxed));
  const timespec time{0, longest.count()};
  syscall(SYS_futex, low_half(state.progress), FUTEX_WAIT, seen, &time, nullptr, 0);
  state.num_sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void RankGroup::wake_sleepers() {
  syscall(SYS_futex, low_half(own_->progress), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr,
          nullptr, 0);
}

// --- Staying ---

// Either this rank sees the failure here, or the rank that failed sees this one inside: both write
// before they read, in one order for all.
RankGroup::Inside::Inside(RankGroup& group, const Operation& operation) : group_(group) {
  group_.own_->inside.store(true, std::memory_order_seq_cst);
  if (group_.shared_->first_report.load(std::memory_order_seq_cst) >= 0) {
    group_.own_->inside.store(false, std::memory_order_release);
    group_.throw_broken(operation);
  }
}

RankGroup::Inside::~Inside() {
  group_.own_->inside.store(false, std::memory_order_seq_cst);
  if (!unwinding_) return;
  group_.fail("left a collective before its end");
  group_.wait_until_all_are_out();
}

// How long this rank has seen another one inside after a failure.
struct RankGroup::Stay {
  RunningTime inside{kLook}, stopped{kLook}, killed{kLook};
  bool was_killed = false;
};

// To leave earlier would hand memory back that others still use. They look at the failure before
// each chunk, and wait for no rank after it. A thread cannot be stopped alone, so there is no end
// to the wait for one.
void RankGroup::wait_until_all_are_out() noexcept {
  const auto for_any_rank = [&](auto condition) {
    bool any = false;
    for (int r = 0; r < world_size_; ++r) any = condition(r) || any;
    return any;
  };
  for (const auto end = Clock::now() + kYieldTime; Clock::now() < end; std::this_thread::yield())
    if (!for_any_rank([&](int r) { return is_inside(r); })) return;
  std::array<Stay, kMaxRanks> stays;  // on the stack: there may be no memory left
  while (for_any_rank([&](int r) { return is_awaited(r, stays[static_cast<std::size_t>(r)]); }))
    std::this_thread::sleep_for(kLook);
}

// Kills the rank's process when its time is up. The kernel may need a while to end a process.
bool RankGroup::is_awaited(int rank, Stay& stay) noexcept {
  if (!is_inside(rank)) return false;
  if (memory_->is_one_process()) return true;
  if (stay.was_killed) return stay.killed.advance() < silence_;
  const bool is_stopped = memory_->state_of(rank) == ProcessState::stopped;
  if (!is_stopped) stay.stopped = RunningTime(kLook);
  const bool was_stopped = is_stopped && stay.stopped.advance() >= verdict_time_ / 2;
  if (!was_stopped && stay.inside.advance() < silence_) return true;
  memory_->expel(rank,
                 was_stopped ? "was stopped inside a failed call" : "stayed inside a failed call");
  stay.was_killed = true;
  stay.killed = RunningTime(kLook);
  return true;
}

void RankGroup::shut_out(std::span<const int> ranks, Where where) {
  for (const int r : ranks) memory_->expel(r, "was left out, and may have work queued on its GPU");
  const auto all_have_died = [&] {
    return std::all_of(ranks.begin(), ranks.end(), [&](int r) { return memory_->has_died(r); });
  };
  for (RunningTime waited(kLook); !all_have_died() && waited.advance() < silence_;)
    std::this_thread::sleep_for(kLook);
  wait_until_all_are_out();
  for (int r = 0; r < world_size_; ++r) {
    const bool must_die = std::find(ranks.begin(), ranks.end(), r) != ranks.end();
    RINGRAD_CHECK(!is_inside(r) && (!must_die || memory_->has_died(r)), CollectiveError, where,
                  "shrink: rank ", name(r), " must end within ",
                  std::chrono::duration<double>(silence_).count(),
                  " s of SIGKILL; got a process that lives");
  }
}

bool RankGroup::is_inside(int rank) const {
  return ranks_[rank].inside.load(std::memory_order_seq_cst) && !memory_->has_died(rank);
}

// --- Failure ---

// The place of a rank is written once, before the one store that makes it known. So a rank that
// dies while it reports leaves nothing half said, and another one reports its death. A rank whose
// report comes second throws its own error, but blames whom the first report blames.
void RankGroup::report_failure(int culprit, const std::string& text) noexcept {
  const std::lock_guard lock(report_mutex_);
  if (!has_reported_ && shared_->first_report.load(std::memory_order_acquire) < 0) {
    has_reported_ = true;
    FailureReport& report = report_of(rank_);
    report.culprit = culprit;
    const std::size_t length = std::min(text.size(), report.text.size() - 1);
    std::memcpy(report.text.data(), text.data(), length);
    report.text[length] = '\0';
    int nobody = -1;
    shared_->first_report.compare_exchange_strong(nobody, rank_, std::memory_order_seq_cst);
  }
  tell_launcher();
}

void RankGroup::report_deaths() noexcept {
  if (!memory_->has_any_died()) return;
  for (int r = 0; r < world_size_; ++r)
    if (r != rank_ && !ranks_[r].left.load(std::memory_order_acquire) && memory_->has_died(r))
      report_failure(r, "it has died");
}

void RankGroup::watch_for_deaths(Clock::time_point now) noexcept {
  const auto at = now.time_since_epoch();
  if (at.count() < next_look_.load(std::memory_order_relaxed)) return;
  next_look_.store((at + kDeathLook).count(), std::memory_order_relaxed);
  report_deaths();
}

void RankGroup::fail_and_throw(const Operation& operation, int culprit, const std::string& text) {
  report_failure(culprit, text);
  throw CollectiveError(text, operation.where);
}

std::vector<int> RankGroup::ranks_not_at(std::uint64_t progress) const {
  std::vector<int> behind;
  for (int r = 0; r < world_size_; ++r)
    if (ranks_[r].progress.load(std::memory_order_acquire) < progress) behind.push_back(r);
  return behind;
}

int RankGroup::first_stopped(int otherwise) const {
  const auto is_stopped = [&](int r) {
    const ProcessState state = memory_->state_of(r);
    return !ranks_[r].left.load(std::memory_order_acquire) &&
           (state == ProcessState::stopped || state == ProcessState::traced);
  };
  if (is_stopped(otherwise)) return otherwise;
  for (int r = 0; r < world_size_; ++r)
    if (is_stopped(r)) return r;
  return otherwise;
}

// Where all have come, a rank may wait for one that waits for another.
void RankGroup::fail_late(const Operation& operation, int peer, std::uint64_t entered) {
  const std::vector<int> absent = ranks_not_at(entered);
  const int culprit = first_stopped(absent.empty() ? peer : absent[0]);
  if (absent.empty())
    fail_and_throw(operation, culprit,
                   concat(operation, ": every rank must finish within ", deadline_s(),
                          " s; got no progress from rank ", name(culprit)));
  fail_and_throw(operation, culprit,
                 concat(operation, ": every rank must arrive within ", deadline_s(),
                        " s; got no call from ", names_.list(absent)));
}

void RankGroup::fail_left(const Operation& operation, int peer) {
  check_whole(operation);  // a rank that leaves because of a failure has reported it before
  fail_and_throw(operation, peer,
                 concat(operation, ": every rank must take part; got rank ", name(peer),
                        ", which has left the group"));
}

void RankGroup::fail_mixed(const Operation& operation, std::uint64_t next_entry) {
  const auto all_have_come = [&] {
    for (int r = 0; r < world_size_; ++r)
      if (r != rank_ && !has_published(r, next_entry)) return false;
    return true;
  };
  for (RunningTime waited(kLook);
       !all_have_come() && waited.advance() < verdict_time_ / kMajorityShare;) {
    check_whole(operation);
    std::this_thread::sleep_for(kLook);
  }
  std::vector<int> ranks;
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < world_size_; ++r) {
    if (r != rank_ && !has_published(r, next_entry)) continue;
    ranks.push_back(r);
    calls.push_back(r == rank_ ? operation.call : ranks_[r].calls[(num_entries_ + 1) % 2]);
  }
  fail_and_throw(operation, odd_one_out(calls, world_size_, ranks),
                 concat(operation, ": all ranks must make the same call; got ",
                        list_calls(calls, names_, ranks)));
}

// Threads have numbers of their own, of which a launcher knows nothing.
void RankGroup::tell_launcher() const noexcept {
  if (memory_->is_one_process()) return;
  const int culprit = report_of(shared_->first_report.load(std::memory_order_acquire)).culprit;
  report_culprit(name(culprit));  // kNobody too: it stays kNobody
}

void RankGroup::throw_broken(const Operation& operation) const {
  const FailureReport& report = report_of(shared_->first_report.load(std::memory_order_acquire));
  tell_launcher();
  throw_broken_group(operation, name(report.culprit), report.text.data());
}

int RankGroup::failed_rank() const noexcept {
  const int reporter = shared_->first_report.load(std::memory_order_acquire);
  if (reporter < 0) return -1;
  const int culprit = report_of(reporter).culprit;
  return culprit == kNobody ? rank_ : culprit;
}

}  // namespace ringrad
