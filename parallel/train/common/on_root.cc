#include "ringrad/parallel/train/common/on_root.h"

#include <algorithm>
#include <vector>

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

// How long ranks wait between two calls. Short work must not wait for the interval to end; long
// work must not fill the flight recorder.
std::chrono::nanoseconds pulse(Clock::duration elapsed) {
  constexpr auto kShort = std::chrono::milliseconds(50);
  constexpr auto kLong = std::chrono::seconds(1);
  return elapsed < kLong ? std::chrono::nanoseconds(kShort) : kLong;
}

}  // namespace

void await_all(const std::string& what,
               const std::function<bool(std::chrono::nanoseconds)>& is_done, Communicator& comm,
               std::chrono::nanoseconds deadline, Where where) {
  const auto begin = Clock::now();
  const int n = comm.world_size();
  // flags[r] is 1 while rank r works; flags[n] is 1 once any rank's deadline has passed.
  const Tensor state = empty({n + 1}, {.dtype = DType::int32, .device = Device()}, where);
  std::int32_t* const flags = state.data<std::int32_t>();
  for (;;) {
    const std::chrono::nanoseconds patience = pulse(Clock::now() - begin);
    const bool done = is_done(patience);
    std::fill(flags, flags + n + 1, 0);
    flags[comm.rank()] = !done;
    flags[n] = Clock::now() - begin >= deadline;
    comm.all_reduce(state, ReduceOp::max, where);
    std::vector<int> missing;
    for (int rank = 0; rank < n; ++rank)
      if (flags[rank]) missing.push_back(rank);
    if (missing.empty()) return;
    if (flags[n]) {
      const std::string reason =
          concat(what, ": must be done within ", std::chrono::duration<double>(deadline).count(),
                 " s; still busy with ", comm.rank_names().list(missing));
      comm.abort(reason);
      throw CollectiveError(reason, where);
    }
    // A rank that is done waits here rather than in the collective, whose deadline is not meant for
    // this.
    if (done) std::this_thread::sleep_for(patience / 2);
  }
}

AnswerWhileAtWork::AnswerWhileAtWork(const std::string& what, Communicator& comm,
                                     std::chrono::nanoseconds deadline, Where where)
    : thread_([this, what, &comm, deadline, where] {
        const auto is_done = [this](std::chrono::nanoseconds patience) {
          std::unique_lock lock(mutex_);
          return changed_.wait_for(lock, patience, [this] { return is_done_; });
        };
        try {
          await_all(what, is_done, comm, deadline, where);
        } catch (...) {
          failure_ = std::current_exception();
        }
      }) {}

void AnswerWhileAtWork::end() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AnswerWhileAtWork::finish() {
  end();
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace ringrad
