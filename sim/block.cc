#include "ringrad/sim/block.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "ringrad/sim/device/indices.h"
#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/unwritten.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace ringrad::sim {
namespace {

constexpr std::size_t kMeetingsAtHand = 8;
constexpr std::size_t kCellsPerWarp = kMeetingsAtHand + 1;

constexpr const char* kSyncWarp = "__syncwarp()";

Block* current_block = nullptr;

uint3 unflatten(std::uint64_t index, dim3 extents) {
  return {static_cast<unsigned>(index % extents.x),
          static_cast<unsigned>(index / extents.x % extents.y),
          static_cast<unsigned>(index / extents.x / extents.y)};
}

std::uint32_t first_lanes(unsigned count) { return count >= kWarpSize ? ~0u : (1u << count) - 1; }

}  // namespace

// --- Running -------------------------------------------------------------------------------------

Block::Block(ThreadPool& pool) : pool_(pool) {}

Block::~Block() { abandon(); }

Block* Block::current() { return current_block; }

void Block::begin(const Kernel& kernel, std::uint64_t index) {
  kernel_ = &kernel;
  index_ = unflatten(index, kernel.grid);
  num_threads_ = kernel.threads_per_block();
  num_begun_ = num_returned_ = 0;
  next_id_ = {};
  failed_ = spun_ = false;
  barrier_ = {};
  warps_.resize((num_threads_ + kWarpSize - 1) / kWarpSize);
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    warp.existing = first_lanes(num_threads_ - static_cast<unsigned>(w) * kWarpSize);
    warp.returned = 0;
    warp.spun = false;
    warp.all.mask = warp.existing;
    warp.all.arrived = 0;
    for (const auto& meeting : warp.partial) meeting->mask = meeting->arrived = 0;
    // Allocate now: ThreadSanitizer would see an allocation by a simulated thread.
    while (kTsan && warp.partial.size() < kMeetingsAtHand) {
      warp.partial.push_back(std::make_unique<Meeting>());
      warp.partial.back()->number = warp.partial.size();
    }
  }
  shared_.begin_block(kernel.dynamic_shared_bytes, kernel.shared_limit_bytes);
  order_.begin(kernel.first_block, kernel.num_blocks(), index, num_threads_);
  // New addresses: accesses of earlier blocks must not seem to happen before those of this block.
  if (kTsan) sync_cells_ = std::vector<SyncCell>(2 + 2 * kCellsPerWarp * warps_.size());
}

Block::State Block::run() {
  static thread_local Fiber here;
  caller_ = &here;
  current_block = this;
  blockIdx = index_;
  blockDim = kernel_->block;
  gridDim = kernel_->grid;
  ready_.append(spinning_);
  {
    const ArithmeticTrap trap;
    for (Thread* next; !failed_ && (next = next_thread());) {
      enter(*next);
      here.switch_to(next->fiber);
    }
  }
  current_block = nullptr;
  AccessOrder::leave();

  if (!failed_ && num_returned_ == num_threads_) return State::finished;
  if (!failed_ && !spinning_.empty()) return State::spinning;
  if (failed_)
    fault_.message = std::exchange(fault_message_, nullptr)();
  else
    fault_ = {cudaErrorLaunchFailure,
              "deadlock: all threads that have not returned wait for each other\n" + describe()};
  abandon();
  return State::failed;
}

void Block::abandon() {
  pool_.for_each_of(*this, [&](Thread& thread) {
    thread.fiber.restart(&run_threads);
    thread.waits_in = nullptr;
    pool_.put(thread);
  });
  ready_ = spinning_ = barrier_.waiting = {};
  for (Warp& warp : warps_) {
    warp.all.waiting = {};
    for (const auto& meeting : warp.partial) meeting->waiting = {};
  }
}

// The loop of every fiber.
void Block::run_threads() {
  Fiber::begin();
  for (;;) {
    Block& block = *current_block;
    Thread& self = *block.thread_;
    do block.run_one_thread(self);
    while (!kTsan && block.ready_.empty() && block.num_begun_ < block.num_threads_);
    block.pool_.put(self);
    block.switch_from(self);
  }
}

void Block::run_one_thread(Thread& thread) {
  thread.index = num_begun_++;
  order_.enter(thread.index);
  threadIdx = thread.id = next_id_;
  if (++next_id_.x == kernel_->block.x) {
    next_id_.x = 0;
    if (++next_id_.y == kernel_->block.y) {
      next_id_.y = 0;
      ++next_id_.z;
    }
  }
  acquire(kernel_->queued);
  for (const auto& kernel : kernel_->after) acquire(kernel->done);
  bool threw = false;
  try {
    kernel_->body();
  } catch (...) {
    threw = true;
  }
  if (threw)
    fail(cudaErrorLaunchFailure, [this] { return "a C++ exception left " + describe_thread(); });
  release(kernel_->done);

  ++num_returned_;
  ++progress_;
  if (num_returned_ == num_threads_) check_unwritten(order_);
  Warp& warp = warps_[thread.index / kWarpSize];
  const std::uint32_t lane = 1u << (thread.index % kWarpSize);
  warp.returned |= lane;
  bool awaited = barrier_.arrived > 0 || warp.all.arrived > 0;
  for (const auto& meeting : warp.partial)
    awaited |= meeting->arrived > 0 && (meeting->mask & lane);
  if (awaited) fail_divergence(nullptr, {});
}

Thread* Block::next_thread() {
  if (Thread* thread = ready_.pop()) return thread;
  if (num_begun_ == num_threads_) return nullptr;
  Thread* fresh = pool_.take();
  if (!fresh) {
    failed_ = true;
    fault_.error = cudaErrorLaunchOutOfResources;
    fault_message_ = [this] { return "too many threads wait at the same time\n" + describe(); };
    return nullptr;
  }
  fresh->block = this;
  return fresh;
}

void Block::enter(Thread& thread) {
  thread_ = &thread;
  threadIdx = thread.id;
  order_.enter(thread.index);
}

// Continues with another thread, or with run() if there is none; returns when this thread resumes.
// Under ThreadSanitizer run() always chooses, so that no simulated thread is seen to create the
// next.
void Block::switch_from(Thread& thread) {
  Thread* next = kTsan ? nullptr : next_thread();
  if (next == &thread) return;
  if (next) enter(*next);
  thread.fiber.switch_to(next ? next->fiber : *caller_);
}

// --- Waiting -------------------------------------------------------------------------------------

void Block::wait_in(ThreadList& list, const char* operation, Site site) {
  Thread& self = *thread_;
  self.waits_in = operation;
  self.waits_at = site;
  list.push(self);
  switch_from(self);
  self.waits_in = nullptr;
}

void Block::spin(Site site) {
  spun_ = warps_[thread_->index / kWarpSize].spun = true;
  wait_in(spinning_, "a spin loop", site);
}

int Block::barrier(bool vote, const char* operation, Site site) {
  Barrier& b = barrier_;
  if (b.arrived == 0) {
    b.site = site;
    b.votes[b.generation % 2] = 0;
  }
  if (num_returned_ > 0 || b.site != site) fail_divergence(operation, site);
  const unsigned generation = b.generation;
  const SyncCell& cell = sync_cell(0, generation);
  b.votes[generation % 2] += vote;
  release(cell);
  if (++b.arrived == num_threads_) {
    if (!std::exchange(spun_, false)) ++progress_;
    b.arrived = 0;
    ++b.generation;
    check_unwritten(order_);
    order_.meet();
    ready_.append(b.waiting);
  } else {
    wait_in(b.waiting, operation, site);
  }
  acquire(cell);
  return b.votes[generation % 2];
}

Exchanged Block::exchange(std::uint32_t mask, std::uint64_t value, const char* operation,
                          Site site) {
  const unsigned w = thread_->index / kWarpSize;
  Warp& warp = warps_[w];
  const std::uint32_t lane = 1u << (thread_->index % kWarpSize);
  mask &= warp.existing;
  if (!(mask & lane))
    fail(cudaErrorLaunchFailure, [=, this] {
      return "divergence: " + describe_thread() + " called " + operation + " at " +
             to_string(site) + " with a mask that leaves it out";
    });
  if (mask & warp.returned) fail_divergence(operation, site);
  Meeting& meeting = meeting_of(warp, mask);
  if (meeting.arrived == 0) meeting.operation = operation;
  if (meeting.operation != operation) fail_divergence(operation, site);
  const unsigned generation = meeting.generation;
  const SyncCell& cell = sync_cell(1 + w * kCellsPerWarp + meeting.number, generation);
  auto& values = meeting.values[generation % 2];
  values[thread_->index % kWarpSize] = value;
  meeting.arrived |= lane;
  release(cell);
  if (meeting.arrived == mask) {
    if (!std::exchange(warp.spun, false)) ++progress_;
    meeting.arrived = 0;
    ++meeting.generation;
    if (operation == kSyncWarp)
      mask == warp.existing ? order_.meet_in_warp(w) : order_.meet_in_warp(w, mask);
    ready_.append(meeting.waiting);
  } else {
    wait_in(meeting.waiting, operation, site);
  }
  acquire(cell);
  return {values.data(), mask};
}

void Block::sync_warp(std::uint32_t mask, Site site) { exchange(mask, 0, kSyncWarp, site); }

Block::Meeting& Block::meeting_of(Warp& warp, std::uint32_t mask) {
  if (mask == warp.all.mask) return warp.all;
  for (const std::uint32_t wanted : {mask, 0u})
    for (const auto& meeting : warp.partial)
      if (meeting->mask == wanted) {
        meeting->mask = mask;
        return *meeting;
      }
  Meeting& meeting = *warp.partial.emplace_back(std::make_unique<Meeting>());
  meeting.mask = mask;
  meeting.number = std::min(warp.partial.size(), kMeetingsAtHand);
  return meeting;
}

const SyncCell& Block::sync_cell(std::size_t group, unsigned generation) const {
  static const SyncCell none;
  return kTsan ? sync_cells_[2 * group + generation % 2] : none;
}

std::uint32_t Block::active_lanes() const {
  const Warp& warp = warps_[thread_->index / kWarpSize];
  return warp.existing & ~warp.returned;
}

void* Block::shared_array(const void* declaration, std::size_t bytes, std::size_t alignment) {
  void* memory = shared_.static_array(declaration, bytes, alignment);
  if (!memory)
    fail(cudaErrorInvalidConfiguration, [this] {
      return describe_thread() + " needs more shared memory than there is: 48 KiB static, and " +
             std::to_string(kernel_->shared_limit_bytes) + " bytes in all";
    });
  return memory;
}

// --- Faults --------------------------------------------------------------------------------------

void Block::fail(cudaError_t error, std::function<std::string()> message) {
  failed_ = true;
  fault_.error = error;
  fault_message_ = std::move(message);
  thread_->fiber.leave_for(*caller_);
}

void Block::fail_divergence(const char* operation, Site site) {
  fail(cudaErrorLaunchFailure, [=, this] {
    const std::string did =
        operation ? std::string("called ") + operation + " at " + to_string(site) : "returned";
    return "divergence: " + describe_thread() + " " + did + ", and others did not\n" + describe();
  });
}

std::string Block::describe_thread() const {
  return "kernel '" + kernel_->name + "' on device " + std::to_string(kernel_->device) +
         ", block " + to_string(index_) + ", thread " + to_string(thread_->id);
}

std::string Block::describe_thread(const Access& access) const {
  return "block " + to_string(unflatten(order_.block_of(access), kernel_->grid)) + ", thread " +
         to_string(unflatten(access.thread, kernel_->block));
}

std::string Block::describe() const {
  struct Waiting {
    unsigned count = 0;
    uint3 example{};
  };
  std::map<std::string, Waiting> places;
  pool_.for_each_of(*this, [&](const Thread& thread) {
    if (!thread.waits_in) return;
    Waiting& waiting = places[thread.waits_in + (" at " + to_string(thread.waits_at))];
    if (waiting.count++ == 0 || thread.index == 0) waiting.example = thread.id;
  });
  std::string text = "  kernel '" + kernel_->name + "' on device " +
                     std::to_string(kernel_->device) + ", block " + to_string(index_) + ": " +
                     std::to_string(num_returned_) + " of " + std::to_string(num_threads_) +
                     " threads have returned";
  for (const auto& [place, waiting] : places)
    text += "\n    " + std::to_string(waiting.count) + " in " + place + ", e.g. thread " +
            to_string(waiting.example);
  return text;
}

}  // namespace ringrad::sim
