#include "sim/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "sim/fault_handler.h"
#include "sim/sanitizers.h"

namespace ringrad::sim {
namespace {

// Rounds in which only spinning blocks ran, before other host threads get this CPU.
constexpr int kEagerRounds = 64;
constexpr auto kRest = std::chrono::microseconds(50);

thread_local bool engine_runs_here = false;

}  // namespace

Engine::Engine(int num_devices, Memory& memory, Clock& clock, const EngineOptions& options)
    : options_(options),
      memory_(memory),
      clock_(clock),
      faults_(static_cast<std::size_t>(num_devices)),
      random_state_(options.seed) {}

bool Engine::runs_here() { return engine_runs_here; }

// --- The graph -------------------------------------------------------------------------------------

void Engine::submit(const std::shared_ptr<Op>& op,
                    const std::vector<std::shared_ptr<Op>>& predecessors) {
  const QuietLock lock(mutex_);
  for (const std::shared_ptr<Op>& predecessor : predecessors) {
    if (!predecessor) continue;
    if (kTsan) op->kernel.after.emplace_back(predecessor, &predecessor->kernel);
    op->begin_us = std::max(op->begin_us, predecessor->end_us);
    if (predecessor->done) continue;
    op->predecessors.push_back(predecessor);
    predecessor->followers.push_back(op);
  }
  op->num_pending = op->predecessors.size();
  pending_.push_back(op);
  ++num_submitted_;
  if (op->num_pending == 0) ready_.push_back(op);
}

void Engine::finish(const std::shared_ptr<Op>& op) {
  const QuietLock lock(mutex_);
  clock_.finish(*op);
  op->done = true;
  op->predecessors.clear();
  for (const std::shared_ptr<Op>& follower : std::exchange(op->followers, {})) {
    follower->begin_us = std::max(follower->begin_us, op->end_us);
    if (--follower->num_pending == 0) ready_.push_back(follower);
  }
  op->kernel.body = nullptr;
  op->kernel.after.clear();
  std::erase(pending_, op);
  last_progress_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

std::shared_ptr<Op> Engine::find_unordered_use(const void* memory, const Op& op) const {
  const QuietLock lock(mutex_);
  std::vector<const Op*> before{&op};  // grows while it is walked
  for (std::size_t i = 0; i < before.size(); ++i)
    for (const std::shared_ptr<Op>& predecessor : before[i]->predecessors)
      if (std::find(before.begin(), before.end(), predecessor.get()) == before.end())
        before.push_back(predecessor.get());
  for (const std::shared_ptr<Op>& other : pending_)
    if (std::find(other->uses.begin(), other->uses.end(), memory) != other->uses.end() &&
        std::find(before.begin(), before.end(), other.get()) == before.end())
      return other;
  return nullptr;
}

// --- Waiting ---------------------------------------------------------------------------------------

void Engine::wait(const std::shared_ptr<Op>& op) {
  {
    const Unseen unseen;
    std::unique_lock lock(mutex_);
    while (!op->done) {
      if (running_)
        changed_.wait(lock);
      else
        run_as_engine(lock, [&] { run_until(*op); });
    }
  }
  acquire(op->kernel.done);
}

bool Engine::poll(const std::shared_ptr<Op>& op) {
  {
    const Unseen unseen;
    std::unique_lock lock(mutex_);
    if (!op->done && !running_)
      run_as_engine(lock, [&] { begin_block() || begin_op() || poll_blocks(); });
    if (!op->done) return false;
  }
  acquire(op->kernel.done);
  return true;
}

// Runs `work`, which needs the engine for itself, without the lock.
template <class Work>
void Engine::run_as_engine(std::unique_lock<std::mutex>& lock, Work&& work) {
  running_ = true;
  lock.unlock();
  prepare_thread_for_faults();
  engine_runs_here = true;
  work();
  memory_.permit(0);
  engine_runs_here = false;
  lock.lock();
  running_ = false;
  changed_.notify_all();
}

void Engine::run_until(const Op& op) {
  last_progress_ = std::chrono::steady_clock::now();
  int idle_rounds = 0;
  while (!op.done) {
    if (begin_block() || begin_op()) {
      idle_rounds = 0;
      continue;
    }
    poll_blocks();
    if (++idle_rounds > kEagerRounds) std::this_thread::sleep_for(kRest);
  }
}

// --- Running ---------------------------------------------------------------------------------------

bool Engine::begin_block() {
  for (Grid& grid : grids_) {
    if (grid.num_begun == grid.op->kernel.num_blocks()) continue;
    if (grid.blocks.size() >= max_resident_blocks(grid.op->kernel)) continue;
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

bool Engine::begin_op() {
  std::shared_ptr<Op> op;
  bool dropped = false;
  {
    const QuietLock lock(mutex_);
    if (ready_.empty()) return false;
    const auto next =
        ready_.begin() + static_cast<std::ptrdiff_t>(options_.seed ? random() % ready_.size() : 0);
    op = *next;
    ready_.erase(next);
    clock_.begin(*op);
    dropped = faults_[static_cast<std::size_t>(op->device)].has_value();
  }
  // A marker runs nothing; but for ThreadSanitizer it is a thread that passes on an order.
  if (dropped || (op->kind == Op::Kind::marker && !kTsan))
    finish(op);
  else
    grids_.emplace_back().op = op;
  return true;
}

// Each block that spins gets one turn. False if there is none.
bool Engine::poll_blocks() {
  if (grids_.empty()) return false;
  for (Grid& grid : grids_) {
    for (std::unique_ptr<Block>& block : grid.blocks) run(grid, block);
    std::erase(grid.blocks, nullptr);
  }
  finish_grids();

  const auto now = std::chrono::steady_clock::now();
  {
    const QuietLock lock(mutex_);
    if (std::exchange(submitted_at_progress_, num_submitted_) != num_submitted_)
      last_progress_ = now;
  }
  if (now - last_progress_ < options_.hang_limit) return true;
  std::string message = "deadlock: for " + std::to_string(options_.hang_limit.count()) +
                        " ms only spinning threads have run";
  for (const Grid& grid : grids_)
    for (const std::unique_ptr<Block>& block : grid.blocks) message += "\n" + block->describe();
  for (Grid& grid : grids_) fail(grid, {cudaErrorLaunchTimeout, message});
  finish_grids();
  return true;
}

// Lets a block run. True, and no block, if it has ended.
bool Engine::run(Grid& grid, std::unique_ptr<Block>& block) {
  if (!block) return true;
  memory_.permit(grid.op->reaches);
  const Block::State state = block->run();
  if (state == Block::State::spinning) return false;
  const std::unique_ptr<Block>& ended = idle_blocks_.emplace_back(std::move(block));
  ++grid.num_finished;
  if (state == Block::State::failed) fail(grid, Fault(ended->fault()));
  return true;
}

// Stops a kernel: no other block of it will run.
void Engine::fail(Grid& grid, Fault fault) {
  report_fault(grid.op->device, std::move(fault));
  for (std::unique_ptr<Block>& block : grid.blocks) {
    if (!block) continue;
    block->abandon();
    idle_blocks_.push_back(std::move(block));
    ++grid.num_finished;
  }
  grid.num_finished += grid.op->kernel.num_blocks() - grid.num_begun;
  grid.num_begun = grid.op->kernel.num_blocks();
}

void Engine::finish_grids() {
  for (std::size_t i = 0; i < grids_.size();) {
    const std::shared_ptr<Op> op = grids_[i].op;
    if (grids_[i].num_finished < op->kernel.num_blocks()) {
      ++i;
      continue;
    }
    grids_.erase(grids_.begin() + static_cast<std::ptrdiff_t>(i));
    if (const std::string damage = memory_.check_canaries(); !damage.empty())
      report_fault(op->device,
                   {cudaErrorIllegalAddress, "kernel '" + op->kernel.name + "' on device " +
                                                 std::to_string(op->device) + " wrote " + damage});
    finish(op);
  }
}

// --- Faults ----------------------------------------------------------------------------------------

std::optional<Fault> Engine::fault(int device) const {
  const QuietLock lock(mutex_);
  return faults_[static_cast<std::size_t>(device)];
}

void Engine::report_fault(int device, Fault fault) {
  const QuietLock lock(mutex_);
  auto& first = faults_[static_cast<std::size_t>(device)];
  if (!first) first = std::move(fault);
}

// xorshift64: any state but 0.
std::uint64_t Engine::random() {
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return random_state_;
}

}  // namespace ringrad::sim
