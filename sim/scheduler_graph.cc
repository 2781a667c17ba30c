// The graph of ops: which op may begin, and which ops a finished one releases.

#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/scheduler.h"

namespace ringrad::sim {

void Scheduler::submit(const std::shared_ptr<Op>& op,
                       const std::vector<std::shared_ptr<Op>>& predecessors,
                       const std::shared_ptr<Op>& ahead) {
  const QuietLock lock(mutex_);
  for (const std::shared_ptr<Op>& predecessor : predecessors) {
    if (!predecessor) continue;
    if (kTsan) op->kernel.after.emplace_back(predecessor, &predecessor->kernel);
    op->begin_us = std::max(op->begin_us, predecessor->end_us);
    if (predecessor->done) {
      if (predecessor->stopped) stop_follower(*predecessor, *op);
      continue;
    }
    op->predecessors.push_back(predecessor);
    predecessor->followers.push_back(op);
  }
  op->num_pending = op->predecessors.size();
  if (ahead && !ahead->begun) {
    op->ahead = ahead.get();
    ahead->behind = op;
    ++op->num_pending;
  }
  pending_.emplace(op.get(), op);
  ++num_submitted_;
  if (op->num_pending == 0) ready_.push_back(op);
}

// The op has begun, so the op behind it becomes the head of its hardware queue.
// REQUIRES: mutex_ is held
void Scheduler::release_next(Op& op) {
  op.begun = true;
  const std::shared_ptr<Op> next = std::exchange(op.behind, nullptr);
  if (!next) return;
  next->ahead = nullptr;
  if (--next->num_pending == 0) ready_.push_back(next);
}

void Scheduler::finish(const std::shared_ptr<Op>& op) {
  const QuietLock lock(mutex_);
  clock_.finish(*op);
  op->done = true;
  op->predecessors.clear();
  for (const std::shared_ptr<Op>& follower : std::exchange(op->followers, {})) {
    follower->begin_us = std::max(follower->begin_us, op->end_us);
    if (op->stopped) stop_follower(*op, *follower);
    if (--follower->num_pending == 0) ready_.push_back(follower);
  }
  op->kernel.body = nullptr;
  op->kernel.after.clear();
  pending_.erase(op.get());
  idle_ = {};
  changed_.notify_all();
}

// Work that depends on stopped work does not run, and its device has also failed.
// REQUIRES: mutex_ is held
void Scheduler::stop_follower(const Op& op, Op& follower) {
  follower.stopped = true;
  auto& fault = faults_[static_cast<std::size_t>(follower.device)];
  const auto& cause = faults_[static_cast<std::size_t>(op.device)];
  if (!fault && cause)
    fault = Fault{cause->error, "device " + std::to_string(follower.device) +
                                    " waited for work of device " + std::to_string(op.device) +
                                    ", which has failed: " + cause->message};
}

// The users of the memory are mostly just before `op`: the walk back ends once it has met all of
// them, however much is queued.
std::shared_ptr<Op> Scheduler::find_use(const void* memory, const Op* op) const {
  const QuietLock lock(mutex_);
  std::unordered_set<const Op*> users, before{op};
  for (const auto& [key, other] : pending_)
    if (key != op && std::find(other->uses.begin(), other->uses.end(), memory) != other->uses.end())
      users.insert(key);
  std::deque<const Op*> open;
  if (op) open.push_back(op);
  for (; !users.empty() && !open.empty(); open.pop_front())
    for (const auto& predecessor : open.front()->predecessors)
      if (before.insert(predecessor.get()).second) {
        users.erase(predecessor.get());
        open.push_back(predecessor.get());
      }
  return users.empty() ? nullptr : pending_.at(*users.begin());
}

}  // namespace ringrad::sim
