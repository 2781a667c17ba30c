// Launching kernels.

#include <cstring>

#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/machine.h"
#include "ringrad/sim/runtime/runtime_api.h"
#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {
namespace {

std::size_t dynamic_shared_limit(const void* function) {
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  const auto found = machine.dynamic_shared_limits.find(function);
  return found == machine.dynamic_shared_limits.end() ? kStaticSharedBytes : found->second;
}

// The error in the launch's extents; empty if there is none.
std::string complaint_about(const LaunchConfig& config) {
  const dim3 grid = config.grid, block = config.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return "the grid must not be empty; got " + to_string(grid);
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return "the grid must be at most (2147483647, 65535, 65535); got " + to_string(grid);
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMaxThreadsPerBlock ||
      block.y > kMaxThreadsPerBlock || block.z > 64 ||
      std::uint64_t{block.x} * block.y * block.z > kMaxThreadsPerBlock)
    return "a block must have 1 to 1024 threads, at most 64 of them along z; got " +
           to_string(block);
  return {};
}

// Fills op.uses; returns the error of a pointer among the arguments, if there is one.
std::string look_at_arguments(const std::vector<Argument>& arguments, Op& op) {
  Machine& machine = Machine::get();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const auto* bytes = static_cast<const std::byte*>(argument.address);
    for (std::size_t at = 0; at + sizeof(void*) <= argument.bytes; at += sizeof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, bytes + at, sizeof word);
      if (const auto allocation = machine.memory.find(word)) {
        if (allocation->freeing)
          return "argument " + std::to_string(i) + " points to " + machine.memory.describe(word) +
                 ", which cudaFreeAsync was given before";
        op.uses.push_back(allocation->begin);
      } else if (argument.is_pointer && word && !machine.memory.device_of(word)) {
        const QuietLock lock(machine.mutex);
        if (!machine.is_pinned(word))
          return "argument " + std::to_string(i) +
                 " points to host memory, which a device can reach only if it comes from "
                 "cudaMallocHost";
      }
    }
  }
  return {};
}

}  // namespace

cudaError_t enqueue_kernel(const LaunchConfig& config, const void* function,
                           const std::vector<Argument>& arguments, std::function<void()> body) {
  Machine& machine = Machine::get();
  const std::string launch = "launch of kernel '" + std::string(config.name) + "': ";
  if (!function) return fail(cudaErrorInvalidDeviceFunction, launch + "there must be a kernel");
  Stream* stream = config.stream;
  if (const cudaError_t error = machine.resolve("launch", stream)) return error;
  const int current = this_host_thread().device;
  if (stream->device != current)
    return fail(cudaErrorInvalidResourceHandle,
                launch + "the stream must be of the current device; got devices " +
                    std::to_string(stream->device) + " and " + std::to_string(current));
  if (const std::string complaint = complaint_about(config); !complaint.empty())
    return fail(cudaErrorInvalidConfiguration, launch + complaint);
  const std::size_t limit = dynamic_shared_limit(function);
  if (config.dynamic_shared_bytes > limit)
    return fail(cudaErrorInvalidValue, launch + "dynamic shared memory must be at most " +
                                           std::to_string(limit) +
                                           " bytes (cudaFuncSetAttribute can allow more); got " +
                                           std::to_string(config.dynamic_shared_bytes));

  auto op = make_op(Op::Kind::kernel, config.name);
  op->kernel.grid = config.grid;
  op->kernel.block = config.block;
  op->kernel.dynamic_shared_bytes = config.dynamic_shared_bytes;
  op->kernel.shared_limit_bytes = limit > kStaticSharedBytes ? kMaxSharedBytes : kStaticSharedBytes;
  op->kernel.body = std::move(body);
  op->flops = config.flops;
  op->bytes = config.bytes;
  {
    const QuietLock lock(machine.mutex);
    op->reaches = machine.devices[static_cast<std::size_t>(current)].peers |
                  Memory::reach_of(current, false) | Memory::reach_of(current, true);
    for (int d = 0; d < machine.options.num_devices; ++d)
      if (machine.devices[static_cast<std::size_t>(d)].pool_users >> current & 1)
        op->reaches |= Memory::reach_of(d, true);
  }
  if (const unsigned most = max_resident_blocks(op->kernel);
      config.cooperative && op->kernel.num_blocks() > most)
    return fail(cudaErrorCooperativeLaunchTooLarge, launch + "at most " + std::to_string(most) +
                                                        " blocks run at the same time; got " +
                                                        std::to_string(op->kernel.num_blocks()));
  if (const std::string complaint = look_at_arguments(arguments, *op); !complaint.empty()) {
    machine.scheduler.report_fault(current, {cudaErrorIllegalAddress, launch + complaint});
    return check_device(current);
  }
  return machine.submit(op, *stream);
}

}  // namespace ringrad::sim

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*,
                                                          int threads_per_block,
                                                          std::size_t dynamic_shared_bytes) {
  using namespace ringrad::sim;
  if (!blocks) return fail_no_place("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (threads_per_block < 1)
    return fail(cudaErrorInvalidValue,
                "cudaOccupancyMaxActiveBlocksPerMultiprocessor: a block must have threads; got " +
                    std::to_string(threads_per_block));
  *blocks = static_cast<int>(
      blocks_per_multiprocessor(static_cast<unsigned>(threads_per_block), dynamic_shared_bytes));
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  using namespace ringrad::sim;
  if (Scheduler::runs_here()) return check_device(0);
  if (value < 0 || static_cast<std::size_t>(value) > kMaxSharedBytes)
    return fail(cudaErrorInvalidValue,
                "cudaFuncSetAttribute: dynamic shared memory must be at most " +
                    std::to_string(kMaxSharedBytes) + " bytes; got " + std::to_string(value));
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  machine.dynamic_shared_limits[function] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
