#include "ringrad/sim/scheduler.h"

#include <algorithm>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>

#include "ringrad/sim/fault_handler.h"
#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {
namespace {

// Rounds in which only spinning blocks ran, before other host threads get this CPU.
constexpr int kEagerRounds = 64;
constexpr auto kRest = std::chrono::microseconds(50);

// Each query of an op opens and closes device memory, which takes longer than to run a block.
constexpr int kBlocksPerPoll = 1024;

// The hang limit is divided by this after a fault, which is then the likely cause.
constexpr int kHaste = 50;

// How many blocks of a kernel a report of a deadlock describes.
constexpr std::size_t kMostDescribed = 16;

thread_local bool scheduler_runs_here = false;

std::string describe(const Op& op) {
  return "'" + op.kernel.name + "' of stream " + std::to_string(op.stream);
}

}  // namespace

Scheduler::Scheduler(int num_devices, Memory& memory, Clock& clock, const SchedulerOptions& options)
    : options_(options),
      memory_(memory),
      clock_(clock),
      faults_(static_cast<std::size_t>(num_devices)),
      random_state_(options.seed) {}

// Ops refer to each other in both directions.
Scheduler::~Scheduler() {
  for (const auto& [key, op] : pending_) {
    op->predecessors.clear();
    op->followers.clear();
    op->behind = nullptr;
    op->kernel.after.clear();
  }
}

bool Scheduler::runs_here() { return scheduler_runs_here; }

// --- The graph -----------------------------------------------------------------------------------

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

// --- Waiting -------------------------------------------------------------------------------------

void Scheduler::wait(std::shared_ptr<Op> op) {
  {
    const Unseen unseen;
    std::unique_lock lock(mutex_);
    while (!op->done) {
      if (running_)
        changed_.wait(lock);
      else
        run_as_scheduler(lock, [&] { run_until(op); });
    }
  }
  acquire(op->kernel.done);
}

bool Scheduler::poll(std::shared_ptr<Op> op) {
  {
    const Unseen unseen;
    std::unique_lock lock(mutex_);
    if (!op->done && !running_)
      run_as_scheduler(lock, [&] {
        int num_begun = 0;
        while (num_begun < kBlocksPerPoll && begin_block()) ++num_begun;
        if (num_begun == 0 && !begin_op()) poll_blocks(*op);
      });
    if (!op->done) return false;
  }
  acquire(op->kernel.done);
  return true;
}

bool Scheduler::is_done(const Op& op) const {
  const QuietLock lock(mutex_);
  return op.done;
}

// Runs `work`, which needs the scheduler exclusively, without holding the lock.
template <class Work>
void Scheduler::run_as_scheduler(std::unique_lock<std::mutex>& lock, Work&& work) {
  prepare_thread_for_faults();
  running_ = true;
  scheduler_runs_here = true;
  lock.unlock();
  const auto give_back = [&] {
    memory_.permit(0);
    lock.lock();
    running_ = false;
    scheduler_runs_here = false;
    changed_.notify_all();
  };
  try {
    work();
    if (last_run_) check_memory(*last_run_);  // before it is closed
    finish_grids();
  } catch (...) {  // no memory for the scheduler itself
    give_back();
    throw;
  }
  give_back();
}

void Scheduler::run_until(const std::shared_ptr<Op>& op) {
  idle_ = {};
  int idle_rounds = 0;
  while (!op->done) {
    if (begin_block() || begin_op()) {
      idle_rounds = 0;
      continue;
    }
    poll_blocks(*op);
    if (++idle_rounds <= kEagerRounds) continue;
    std::this_thread::sleep_for(kRest);
    idle_ += kRest;
  }
}

// --- Running -------------------------------------------------------------------------------------

bool Scheduler::begin_block() {
  for (Grid& grid : grids_) {
    if (grid.num_begun == grid.op->kernel.num_blocks()) continue;
    if (!has_room_for_block_of(grid)) continue;
    std::unique_ptr<Block> block;
    if (idle_blocks_.empty()) {
      block = std::make_unique<Block>(threads_);
    } else {
      block = std::move(idle_blocks_.back());
      idle_blocks_.pop_back();
    }
    block->begin(grid.op->kernel, grid.num_begun++);
    if (!run(grid, block)) grid.blocks.push_back(std::move(block));
    finish_grids();
    return true;
  }
  return false;
}

// Spinning blocks stay resident, so a block that does not fit next to them cannot begin. Copies and
// host functions need no multiprocessor.
bool Scheduler::has_room_for_block_of(const Grid& grid) const {
  const Op& op = *grid.op;
  if (grid.blocks.size() >= max_resident_blocks(op.kernel)) return false;
  if (op.kind != Op::Kind::kernel) return true;
  Residents residents;
  for (const Grid& other : grids_)
    if (other.op->device == op.device && other.op->kind == Op::Kind::kernel)
      residents.add(other.op->kernel, other.blocks.size());
  return residents.have_room_for_block_of(op.kernel);
}

bool Scheduler::begin_op() {
  std::shared_ptr<Op> op;
  {
    const QuietLock lock(mutex_);
    if (ready_.empty()) return false;
    const auto next =
        options_.seed
            ? ready_.begin() + static_cast<std::ptrdiff_t>(random() % ready_.size())
            : std::min_element(ready_.begin(), ready_.end(), [&](const auto& a, const auto& b) {
                return clock_.earliest_us(*a) < clock_.earliest_us(*b);
              });
    op = *next;
    ready_.erase(next);
    clock_.begin(*op);
    release_next(*op);
    if (faults_[static_cast<std::size_t>(op->device)]) op->stopped = true;
  }
  // A marker runs nothing; but for ThreadSanitizer it is a thread that passes on an order.
  if (op->stopped || (op->kind == Op::Kind::marker && !kTsan))
    finish(op);
  else
    grids_.emplace_back().op = op;
  return true;
}

// Each block that spins gets one turn.
void Scheduler::poll_blocks(const Op& awaited) {
  stop_failed_devices();
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t progress_before = progress_;
  for (std::size_t i = 0; i < grids_.size(); ++i) {
    for (std::unique_ptr<Block>& block : grids_[i].blocks) run(grids_[i], block);
    std::erase(grids_[i].blocks, nullptr);
  }
  finish_grids();

  bool submitted = false, faulted = false;
  {
    const QuietLock lock(mutex_);
    submitted = std::exchange(submitted_at_progress_, num_submitted_) != num_submitted_;
    faulted =
        std::any_of(faults_.begin(), faults_.end(), [](const auto& f) { return f.has_value(); });
  }
  if (submitted || progress_ != progress_before) {
    idle_ = {};
    return;
  }
  idle_ += std::chrono::steady_clock::now() - begin;
  if (idle_ >= (faulted ? options_.hang_limit / kHaste : options_.hang_limit)) fail_hung(awaited);
}

// Runs a block. If it has ended, returns true and leaves `block` null.
bool Scheduler::run(Grid& grid, std::unique_ptr<Block>& block) {
  if (!block) return true;
  if (last_run_ && last_run_ != grid.op) check_memory(*last_run_);
  if (!block) return true;
  if (grid.op->stopped) {  // by check_memory()
    block->abandon();
    idle_blocks_.push_back(std::move(block));
    ++grid.num_finished;
    return true;
  }
  last_run_ = grid.op;
  memory_.permit(grid.op->reaches);
  const std::uint64_t progress_before = block->progress();
  const Block::State state = block->run();
  progress_ += block->progress() - progress_before;
  if (state == Block::State::spinning) return false;
  const std::unique_ptr<Block>& ended = idle_blocks_.emplace_back(std::move(block));
  ++grid.num_finished;
  if (state == Block::State::failed) stop_device(grid.op->device, Fault(ended->fault()));
  return true;
}

// Checks whether the op wrote where no op may write.
void Scheduler::check_memory(const Op& op) {
  const std::string damage = memory_.check_canaries();
  if (!damage.empty())
    stop_device(op.device,
                {cudaErrorIllegalAddress, "kernel '" + op.kernel.name + "' on device " +
                                              std::to_string(op.device) + " wrote " + damage});
}

// Ends all kernels of a device where they are. Their ops are finished by finish_grids().
void Scheduler::stop_device(int device, Fault fault) {
  report_fault(device, std::move(fault));
  for (Grid& grid : grids_) {
    if (grid.op->device != device) continue;
    grid.op->stopped = true;
    for (std::unique_ptr<Block>& block : grid.blocks) {
      if (!block) continue;
      block->abandon();
      idle_blocks_.push_back(std::move(block));
      ++grid.num_finished;
    }
    grid.num_finished += grid.op->kernel.num_blocks() - grid.num_begun;
    grid.num_begun = grid.op->kernel.num_blocks();
  }
}

// The fault of a device may have been set from outside: by a call, or by another device's fault.
void Scheduler::stop_failed_devices() {
  std::vector<std::optional<Fault>> faults;
  {
    const QuietLock lock(mutex_);
    faults = faults_;
  }
  for (const Grid& grid : grids_)
    if (const auto& fault = faults[static_cast<std::size_t>(grid.op->device)];
        fault && !grid.op->stopped)
      stop_device(grid.op->device, *fault);
  finish_grids();
}

void Scheduler::finish_grids() {
  for (std::size_t i = 0; i < grids_.size();) {
    const std::shared_ptr<Op> op = grids_[i].op;
    if (grids_[i].num_finished < op->kernel.num_blocks()) {
      ++i;
      continue;
    }
    grids_.erase(grids_.begin() + static_cast<std::ptrdiff_t>(i));
    if (last_run_ == op) {
      check_memory(*op);
      last_run_ = nullptr;
    }
    finish(op);
  }
}

// Stops the kernels for which the awaited op waits in vain.
void Scheduler::fail_hung(const Op& awaited) {
  std::string message =
      "deadlock: for " +
      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(idle_).count()) +
      " ms only spinning threads have run";
  std::unordered_set<const Op*> guilty;
  {
    const QuietLock lock(mutex_);
    guilty = ancestors(&awaited);
    for (const std::optional<Fault>& fault : faults_)
      if (fault) message += "\nafter " + fault->message;
  }
  for (const Grid& grid : grids_)
    for (std::size_t i = 0; i < grid.blocks.size() && i < kMostDescribed; ++i)
      message += "\n" + grid.blocks[i]->describe();
  message += describe_not_resident();
  message += describe_held();
  for (std::size_t i = 0; i < grids_.size(); ++i)
    if (guilty.contains(grids_[i].op.get()))
      stop_device(grids_[i].op->device, {cudaErrorLaunchTimeout, message});
  idle_ = {};
  finish_grids();
}

// A line for each kernel with blocks that have no room to begin.
std::string Scheduler::describe_not_resident() const {
  std::string text;
  for (const Grid& grid : grids_) {
    const Kernel& kernel = grid.op->kernel;
    if (grid.num_begun == kernel.num_blocks()) continue;
    text += "\n  kernel '" + kernel.name + "' on device " + std::to_string(kernel.device) +
            " has " + std::to_string(kernel.num_blocks()) + " blocks, of which at most " +
            std::to_string(max_resident_blocks(kernel)) + " fit at the same time; " +
            std::to_string(grid.blocks.size()) + " spin, and for " +
            std::to_string(kernel.num_blocks() - grid.num_begun) + " there is no room";
  }
  return text;
}

// A line for each queue's head that keeps other streams' work from beginning.
std::string Scheduler::describe_held() const {
  const QuietLock lock(mutex_);
  std::string text;
  for (const auto& [key, head] : pending_) {
    if (head->begun || head->ahead || !head->behind) continue;
    std::set<std::string> held, awaited;  // in an order that does not depend on addresses
    for (const Op* op = head->behind.get(); op; op = op->behind.get())
      if (op->kind != Op::Kind::marker && op->stream != head->stream) held.insert(describe(*op));
    for (const Op* op : ancestors(head.get()))
      if (op->begun && !op->done) awaited.insert(describe(*op));
    if (held.empty()) continue;
    text += "\n  one hardware queue of device " + std::to_string(head->device) + " holds back";
    for (const std::string& each : held) text += " " + each;
    text += ": stream " + std::to_string(head->stream) + " is ahead in it and waits for";
    for (const std::string& each : awaited) text += " " + each;
  }
  return text;
}

// --- Faults --------------------------------------------------------------------------------------

std::optional<Fault> Scheduler::fault(int device) const {
  const QuietLock lock(mutex_);
  return faults_[static_cast<std::size_t>(device)];
}

void Scheduler::report_fault(int device, Fault fault) {
  const QuietLock lock(mutex_);
  auto& first = faults_[static_cast<std::size_t>(device)];
  if (!first) first = std::move(fault);
}

std::vector<Clock::Event> Scheduler::record() {
  const QuietLock lock(mutex_);
  clock_.record();
  return clock_.events();
}

// xorshift64; its state must not be 0.
std::uint64_t Scheduler::random() {
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return random_state_;
}

}  // namespace ringrad::sim
