#include "ringrad/parallel/comm/gpu/nccl_session.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/rank_watch.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;
using nccl::Comm;
using nccl::Result;
using std::chrono::milliseconds;

constexpr auto kShortestPause = std::chrono::microseconds(100);
constexpr auto kLongestPause = milliseconds(10);
constexpr auto kLongestAbort = std::chrono::seconds(1);

std::atomic<std::uint64_t> num_sleeps = 0;

// Twice the one before, up to the longest: what ends soon is seen soon, and what takes long costs
// little.
class Pauses {
 public:
  auto next() { return std::exchange(next_, std::min<Clock::duration>(2 * next_, kLongestPause)); }
  void reset() { next_ = kShortestPause; }

 private:
  Clock::duration next_ = kShortestPause;
};

Clock::time_point after(Clock::duration time) {
  const auto now = Clock::now();
  return now + std::min(time, Clock::time_point::max() - now);  // more would overflow
}

struct QueuedCall {
  Operation operation;
  Event reached, done;                        // on this rank's GPU
  std::optional<Clock::time_point> end = {};  // set when it has been reached
};

}  // namespace

std::uint64_t num_nccl_sleeps() { return num_sleeps; }

struct NcclSession::State {
  State(const nccl::Library& library, Communicator& host, Device gpu, std::chrono::nanoseconds time,
        Where where)
      : nccl(library.functions),
        gpu(gpu),
        rank(host.rank()),
        names(host.rank_names()),
        deadline(std::chrono::duration_cast<Clock::duration>(time)),
        notes(
            gpu, [] { return false; }, where),
        host(&host) {}

  using Lock = std::unique_lock<std::mutex>;

  void check(Result result, const std::string& what, Where where);
  void await(Lock& lock, Result result, const std::string& what, Where where);
  void watch();
  void drop_finished();
  bool goes_on();
  void break_off(const std::string& reason, bool is_late = false) noexcept;
  void leave_note(bool is_late) noexcept;
  bool finalize(Comm comm);
  void end(Lock& lock);

  const nccl::Functions nccl;
  const Device gpu;
  const int rank;
  const RankNames names;  // calls may outlive the communicator
  const Clock::duration deadline;
  RankWatch notes;  // for threads that wait for the GPU; NCCL ends its own work by itself

  std::mutex mutex;
  std::condition_variable changed;
  Communicator* host;  // null once the session has left the watcher behind
  Comm comm = nullptr;
  std::deque<QueuedCall> calls;
  bool broken = false;
  std::optional<Clock::time_point> closing;  // until when
  bool ended = false;                        // there is no more NCCL communicator

  double deadline_s() const { return std::chrono::duration<double>(deadline).count(); }
};

// --- The rank's thread ---

void NcclSession::State::check(Result result, const std::string& what, Where where) {
  if (result == Result::success || result == Result::in_progress) return;
  const char* more = nccl.get_last_error(comm);
  const std::string text = concat(what, ": NCCL must not fail; got ", nccl.get_error_string(result),
                                  more && *more ? ", " : "", more ? more : "");
  break_off(text);
  throw CollectiveError(text, where);
}

// Until what NCCL does in the background is done.
void NcclSession::State::await(Lock& lock, Result result, const std::string& what, Where where) {
  const auto end = after(deadline);
  Pauses pauses;
  for (int looks = 0;; ++looks) {
    check(result, what, where);
    if (result == Result::success) return;
    if (looks < kLooksBeforeSleep) {
      std::this_thread::yield();
    } else {
      ++num_sleeps;
      changed.wait_for(lock, pauses.next(), [&] { return broken; });
    }
    if (broken || host->failed_rank() >= 0) {
      break_off("");
      throw CollectiveError(concat(what, ": the group must be whole; got a failure of rank ",
                                   names(host->failed_rank())),
                            where);
    }
    if (Clock::now() >= end) {
      const std::string text = concat(what, ": NCCL must be ready within ", deadline_s(),
                                      " s; got a call that is still in progress");
      break_off(text);
      throw CollectiveError(text, where);
    }
    check(nccl.comm_get_async_error(comm, &result), what, where);
  }
}

NcclSession::NcclSession(const nccl::Library& library, const nccl::UniqueId& id, Communicator& host,
                         Device gpu, std::chrono::nanoseconds deadline, Where where)
    : state_(std::make_shared<State>(library, host, gpu, deadline, where)) {
  const DeviceGuard guard(gpu, where);
  watcher_ = std::thread([state = state_] { state->watch(); });
  try {
    State::Lock lock(state_->mutex);
    nccl::Config config;
    const Result result = state_->nccl.comm_init_rank_config(&state_->comm, host.world_size(), id,
                                                             host.rank(), &config);
    state_->await(lock, result, concat("nccl: rank ", state_->names(host.rank())), where);
  } catch (...) {
    wait_for_abort();
    leave_watcher();
    throw;
  }
}

NcclSession::~NcclSession() {
  {
    State::Lock lock(state_->mutex);
    state_->closing = after(state_->deadline);
    state_->changed.notify_all();
    state_->changed.wait_until(lock, *state_->closing,
                               [&] { return state_->ended || state_->broken; });
    state_->changed.wait_until(lock, after(kLongestAbort), [&] { return state_->ended; });
  }
  leave_watcher();
}

void NcclSession::leave_watcher() noexcept {
  State::Lock lock(state_->mutex);
  state_->host = nullptr;
  const bool ended = state_->ended;
  lock.unlock();
  ended ? watcher_.join() : watcher_.detach();
}

void NcclSession::queue(const Operation& operation, const Body& body) {
  const DeviceGuard guard(state_->gpu, operation.where);
  const Stream stream = current_stream(state_->gpu);
  State::Lock lock(state_->mutex);
  RINGRAD_CHECK(!state_->broken, CollectiveError, operation.where, operation,
                ": the group must be whole; got a failure of rank ",
                state_->names(state_->host->failed_rank()));
  state_->notes.claim();
  Event reached(stream, /*timing=*/false, operation.where);
  const std::string what = concat(operation);
  state_->await(lock, body(state_->comm, stream.handle()), what, operation.where);
  Event done(stream, /*timing=*/false, operation.where);
  Operation kept = operation;
  kept.names = &state_->names;
  state_->calls.push_back({std::move(kept), std::move(reached), std::move(done)});
  state_->changed.notify_all();
}

void NcclSession::abort() noexcept {
  const State::Lock lock(state_->mutex);
  state_->break_off("");
}

void NcclSession::wait_for_abort() noexcept {
  State::Lock lock(state_->mutex);
  state_->break_off("");
  state_->changed.wait_until(lock, after(kLongestAbort), [&] { return state_->ended; });
  state_->notes.forget_note();
}

// --- The watcher ---

// All below is called with the mutex held.

void NcclSession::State::break_off(const std::string& reason, bool is_late) noexcept {
  if (broken) return;
  broken = true;
  leave_note(is_late);
  if (host && !reason.empty()) host->abort(reason);
  changed.notify_all();
}

// What is unfinished will end without its result.
void NcclSession::State::leave_note(bool is_late) noexcept {
  const int failed = host ? host->failed_rank() : -1;
  try {
    drop_finished();
    if (calls.empty()) return;
    const Operation& operation = calls.front().operation;
    notes.leave_note({.operation = name(operation.call.op),
                      .rank = names(rank),
                      .peer = failed == rank ? -1 : names(failed),
                      .sequence = operation.sequence,
                      .seconds = deadline_s(),
                      .aborted = !is_late,
                      .where = operation.where});
  } catch (const Error&) {  // the GPU itself has failed: threads that wait for it get that error
  }
}

void NcclSession::State::drop_finished() {
  while (!calls.empty() && calls.front().done.is_done()) calls.pop_front();
}

// False if something is wrong with the calls that are queued.
bool NcclSession::State::goes_on() {
  drop_finished();
  if (host && host->failed_rank() >= 0) {
    break_off("");
    return false;
  }
  if (calls.empty()) return true;
  QueuedCall& oldest = calls.front();
  Result result = Result::success;
  check(nccl.comm_get_async_error(comm, &result), concat(oldest.operation), oldest.operation.where);
  check(result, concat(oldest.operation), oldest.operation.where);
  if (!oldest.end && (closing || oldest.reached.is_done()))
    oldest.end = closing.value_or(after(deadline));
  if (!oldest.end || Clock::now() < *oldest.end) return true;
  break_off(concat(oldest.operation, ": every rank must arrive on its GPU within ", deadline_s(),
                   " s; got no end of it"),
            /*is_late=*/true);
  return false;
}

void NcclSession::State::watch() {
  Lock lock(mutex);
  Pauses pauses;
  while (!broken) {
    if (calls.empty() && !closing) {
      pauses.reset();
      changed.wait(lock, [&] { return broken || closing || !calls.empty(); });
      continue;
    }
    try {
      if (!goes_on()) break;
    } catch (const Error& error) {
      break_off(std::string(error.message()));
      break;
    }
    if (calls.empty() && closing) break;
    changed.wait_for(lock, pauses.next());
  }
  end(lock);
}

// True when NCCL has nothing left to do.
bool NcclSession::State::finalize(Comm own) {
  Result result = nccl.comm_finalize(own);
  for (Pauses pauses; result == Result::in_progress && Clock::now() < *closing;) {
    std::this_thread::sleep_for(pauses.next());
    if (nccl.comm_get_async_error(own, &result) != Result::success) return false;
  }
  return result == Result::success;
}

// NCCL may take its time: readers of the state do not wait for it.
void NcclSession::State::end(Lock& lock) {
  const Comm own = std::exchange(comm, nullptr);
  const bool in_order = !broken;
  lock.unlock();
  if (own && (!in_order || !finalize(own) || nccl.comm_destroy(own) != Result::success))
    nccl.comm_abort(own);
  lock.lock();
  ended = true;
  calls.clear();
  changed.notify_all();
}

}  // namespace ringrad
