// What the scheduler does when only spinning threads are left: it reports every thread that waits,
// and all work that has no room or is held back.

#include <chrono>
#include <set>
#include <string>
#include <unordered_set>

#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/scheduler.h"

namespace ringrad::sim {
namespace {

// How many blocks of a kernel a report of a deadlock describes.
constexpr std::size_t kMostDescribed = 16;

std::string describe(const Op& op) {
  return "'" + op.kernel.name + "' of stream " + std::to_string(op.stream);
}

}  // namespace

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

}  // namespace ringrad::sim
