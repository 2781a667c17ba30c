#include "ringrad/sim/scheduler.h"

#include <algorithm>
#include <thread>
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

thread_local bool scheduler_runs_here = false;

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
