// Allocation, copies and fills.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "ringrad/sim/machine.h"
#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/sim/runtime/runtime_api.h"
#include "ringrad/sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

std::string bytes_text(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

int device_or_host(const void* p) { return Machine::get().memory.device_of(p).value_or(Op::kHost); }

std::string place(int device) {
  return device == Op::kHost ? "on the host" : "on device " + std::to_string(device);
}

// Copies reach all memory of a device.
std::uint64_t reach_of(int device) {
  if (device == Op::kHost) return 0;
  return Memory::reach_of(device, false) | Memory::reach_of(device, true);
}

bool is_pinned(const void* p) {
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  return machine.is_pinned(p);
}

cudaError_t allocate(const char* call, void** p, std::size_t bytes, int device, bool pooled) {
  if (!p) return fail_no_place(call);
  *p = nullptr;
  if (const cudaError_t error = check_device(device)) return error;
  if (const cudaError_t error = Machine::get().check_captures(call)) return error;
  if (bytes == 0) return cudaSuccess;
  Memory& memory = Machine::get().memory;
  *p = memory.allocate(device, bytes, pooled);
  if (!*p) {  // memory given to cudaFreeAsync may become free
    Machine::get().wait_for_device(device);
    *p = memory.allocate(device, bytes, pooled);
  }
  if (*p) return cudaSuccess;
  return fail(cudaErrorMemoryAllocation,
              std::string(call) + ": device " + std::to_string(device) + " has " +
                  bytes_text(memory.bytes_per_device() - memory.bytes_in_use(device)) +
                  " left; asked for " + bytes_text(bytes));
}

cudaError_t fail_free(const char* call, const void* p) {
  return fail(cudaErrorInvalidValue,
              std::string(call) + ": it must be given the beginning of an allocation, once; got " +
                  Machine::get().memory.describe(p));
}

bool is_live_allocation(const void* p) {
  const auto found = Machine::get().memory.find(p);
  return found && found->live && !found->imported && !found->freeing && found->begin == p;
}

// Why [p, p + bytes) cannot be copied from or to; always empty for host memory.
std::string complaint_about(const void* p, std::size_t bytes) {
  const Memory& memory = Machine::get().memory;
  if (!p) return "a null pointer";
  return memory.device_of(p) ? memory.complaint(p, bytes) : std::string();
}

// A copy or a fill, done by one simulated thread.
std::shared_ptr<Op> make_copy(std::string name, std::size_t bytes, int to, int from) {
  auto op = make_op(Op::Kind::copy, std::move(name));
  op->bytes = static_cast<double>(bytes);
  op->source = from;
  op->destination = to;
  op->reaches = reach_of(to) | reach_of(from);
  return op;
}

// Stops the copy if a range is not within one live allocation, which may have changed since it was
// queued.
void check_range(const void* p, std::size_t bytes, const char* verb) {
  const Memory& memory = Machine::get().memory;
  if (!memory.device_of(p) || memory.complaint(p, bytes).empty()) return;
  Block& block = *Block::current();
  block.fail(cudaErrorIllegalAddress, [&memory, &block, p, bytes, verb] {
    return block.kernel().name + " on device " + std::to_string(block.kernel().device) + " " +
           verb + " " + memory.complaint(p, bytes);
  });
}

struct Copy {
  const char* call;
  void* to;
  const void* from;
  std::size_t bytes;
  Stream& stream;
  bool wait;
};

cudaError_t run_copy(const Copy& copy) {
  const int to = device_or_host(copy.to), from = device_or_host(copy.from);
  if (const cudaError_t error = check_device(copy.stream.device)) return error;
  if (copy.bytes == 0) return cudaSuccess;
  for (const void* p : {static_cast<const void*>(copy.to), copy.from})
    if (const std::string complaint = complaint_about(p, copy.bytes); !complaint.empty())
      return fail(
          cudaErrorInvalidValue,
          std::string(copy.call) + ": both ranges must lie in one allocation; got " + complaint);
  auto op = make_copy(copy.call, copy.bytes, to, from);
  for (const void* p : {static_cast<const void*>(copy.to), copy.from})
    if (const auto allocation = Machine::get().memory.find(p))
      op->uses.push_back(allocation->begin);
  // Between devices, or within one, not even cudaMemcpy waits.
  const bool waits = (copy.wait && (to == Op::kHost || from == Op::kHost)) ||
                     (to == Op::kHost && !is_pinned(copy.to));
  // The program may change pageable memory as soon as the call returns.
  std::shared_ptr<std::vector<std::byte>> staged;
  if (from == Op::kHost && !waits && !is_pinned(copy.from)) {
    const auto* begin = static_cast<const std::byte*>(copy.from);
    using Bytes = std::vector<std::byte>;
    staged = std::allocate_shared<Bytes>(UnseenAllocator<Bytes>(), begin, begin + copy.bytes);
  }
  op->kernel.body = [to = copy.to, from = staged ? staged->data() : copy.from, bytes = copy.bytes,
                     staged] {
    check_range(to, bytes, "wrote to");
    check_range(from, bytes, "read from");
    std::memmove(to, from, bytes);
    note_copied(to, from, bytes);
  };
  Machine& machine = Machine::get();
  // A replay would find other bytes in pageable memory, or none.
  if (waits || staged || copy.wait)
    if (const cudaError_t error = machine.check_captures(copy.call, &copy.stream)) return error;
  if (const cudaError_t error = machine.submit(op, copy.stream)) return error;
  if (!waits) return cudaSuccess;
  machine.wait(op);
  return check_device(copy.stream.device);
}

cudaError_t copy_of_kind(const Copy& copy, cudaMemcpyKind kind) {
  const int to = device_or_host(copy.to), from = device_or_host(copy.from);
  const bool to_device = to != Op::kHost, from_device = from != Op::kHost;
  const bool known = kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
  const bool agrees =
      kind == cudaMemcpyDefault ||
      (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
       from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
  if (!known || !agrees)
    return fail(cudaErrorInvalidMemcpyDirection,
                std::string(copy.call) + ": kind " + std::to_string(kind) +
                    " must say where the memory is; got a destination " + place(to) +
                    " and a source " + place(from));
  return run_copy(copy);
}

cudaError_t copy_between(const Copy& copy, int to_device, int from_device) {
  const int to = device_or_host(copy.to), from = device_or_host(copy.from);
  if (to != to_device || from != from_device)
    return fail(cudaErrorInvalidValue,
                std::string(copy.call) + ": from device " + std::to_string(from_device) +
                    " to device " + std::to_string(to_device) + " was asked; got a destination " +
                    place(to) + " and a source " + place(from));
  return run_copy(copy);
}

// Does not wait; nor does CUDA's, for device memory.
cudaError_t fill(const char* call, void* p, int value, std::size_t bytes, Stream& stream) {
  if (const cudaError_t error = check_device(stream.device)) return error;
  const int device = device_or_host(p);
  if (device == Op::kHost)
    return fail(cudaErrorInvalidValue,
                std::string(call) + ": the memory must be a device's; got host memory");
  if (bytes == 0) return cudaSuccess;
  if (const std::string complaint = complaint_about(p, bytes); !complaint.empty())
    return fail(cudaErrorInvalidValue,
                std::string(call) + ": the range must lie in one allocation; got " + complaint);
  auto op = make_copy(call, bytes, device, device);
  op->uses = {Machine::get().memory.find(p)->begin};
  op->kernel.body = [=] {
    check_range(p, bytes, "wrote to");
    std::memset(p, value, bytes);
    note_written(p, bytes);
  };
  return Machine::get().submit(op, stream);
}

// Calls `act(stream)` unless the stream is invalid.
template <class Act>
cudaError_t on_stream(const char* call, cudaStream_t stream, Act&& act) {
  if (const cudaError_t error = Machine::get().resolve(call, stream)) return error;
  return act(*stream);
}

}  // namespace

// --- Allocation ----------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  return allocate("cudaMalloc", p, bytes, this_host_thread().device, /*pooled=*/false);
}

cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream) {
  return on_stream("cudaMallocAsync", stream, [&](Stream& on) {
    return allocate("cudaMallocAsync", p, bytes, on.device, /*pooled=*/true);
  });
}

// Waits for the device, as CUDA does, and for all other users of the memory.
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  if (Scheduler::runs_here()) return check_device(0);
  if (!is_live_allocation(p)) return fail_free("cudaFree", p);
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.check_captures("cudaFree")) return error;
  const int device = device_or_host(p);
  machine.wait_for_device(device);
  while (const auto user = machine.scheduler.find_use(p)) machine.wait(user);
  if (!machine.memory.release(p)) return fail_free("cudaFree", p);
  return check_device(device);
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve("cudaFreeAsync", stream)) return error;
  if (const cudaError_t error = machine.check_captures("cudaFreeAsync", stream)) return error;
  if (!machine.memory.mark_freeing(p)) return fail_free("cudaFreeAsync", p);
  auto op = make_op(Op::Kind::host_function, "cudaFreeAsync");
  op->kernel.body = [p] { Machine::get().memory.release(p); };
  if (const cudaError_t error = machine.submit(op, *stream)) {
    machine.memory.mark_freeing(p, false);
    return error;
  }
  const auto user = machine.scheduler.find_use(p, op.get());
  if (!user) return cudaSuccess;
  machine.scheduler.report_fault(
      stream->device,
      {cudaErrorIllegalAddress, "cudaFreeAsync: stream " + std::to_string(stream->number) +
                                    " frees " + machine.memory.describe(p) + " while kernel '" +
                                    user->kernel.name + "', which uses it, is queued on stream " +
                                    std::to_string(user->stream) + " and nothing orders them"});
  return check_device(stream->device);
}

cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  constexpr std::size_t kPage = 4096;  // as CUDA aligns it
  if (Scheduler::runs_here()) return check_device(0);
  if (!p) return fail_no_place("cudaHostAlloc");
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > std::size_t{1} << 46)
    return fail(cudaErrorMemoryAllocation, "cudaHostAlloc: no room for " + bytes_text(bytes));
  *p = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!*p)
    return fail(cudaErrorMemoryAllocation, "cudaHostAlloc: no room for " + bytes_text(bytes));
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  machine.pinned[*p] = bytes;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return cudaHostAlloc(p, bytes, 0); }

cudaError_t cudaFreeHost(void* p) {
  if (!p) return cudaSuccess;
  if (Scheduler::runs_here()) return check_device(0);
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.check_captures("cudaFreeHost")) return error;
  for (int device = 0; device < machine.options.num_devices; ++device)
    machine.wait_for_device(device);
  const QuietLock lock(machine.mutex);
  if (machine.pinned.erase(p) == 0)
    return fail(cudaErrorInvalidValue,
                "cudaFreeHost: it must be given what cudaMallocHost gave, once");
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (!free_bytes || !total_bytes) return fail_no_place("cudaMemGetInfo");
  const int device = this_host_thread().device;
  const Memory& memory = Machine::get().memory;
  *total_bytes = memory.bytes_per_device();
  *free_bytes = *total_bytes - memory.bytes_in_use(device);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  if (!attributes) return fail_no_place("cudaPointerGetAttributes");
  void* const pointer = const_cast<void*>(p);
  const auto allocation = Machine::get().memory.find(p);
  if (allocation && allocation->live)
    *attributes = {cudaMemoryTypeDevice, allocation->device, pointer, nullptr};
  else if (is_pinned(p))
    *attributes = {cudaMemoryTypeHost, this_host_thread().device, pointer, pointer};
  else
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, nullptr};
  return cudaSuccess;
}

// --- Copies and fills ----------------------------------------------------------------------------

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return on_stream("cudaMemcpy", nullptr, [&](Stream& on) {
    return copy_of_kind({"cudaMemcpy", to, from, bytes, on, true}, kind);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return on_stream("cudaMemcpyAsync", stream, [&](Stream& on) {
    return copy_of_kind({"cudaMemcpyAsync", to, from, bytes, on, false}, kind);
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           std::size_t bytes) {
  return on_stream("cudaMemcpyPeer", nullptr, [&](Stream& on) {
    return copy_between({"cudaMemcpyPeer", to, from, bytes, on, true}, to_device, from_device);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  return on_stream("cudaMemcpyPeerAsync", stream, [&](Stream& on) {
    return copy_between({"cudaMemcpyPeerAsync", to, from, bytes, on, false}, to_device,
                        from_device);
  });
}

cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  return on_stream("cudaMemset", nullptr,
                   [&](Stream& on) { return fill("cudaMemset", p, value, bytes, on); });
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return on_stream("cudaMemsetAsync", stream,
                   [&](Stream& on) { return fill("cudaMemsetAsync", p, value, bytes, on); });
}

// --- Other processes -----------------------------------------------------------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* p) {
  if (!handle) return fail_no_place("cudaIpcGetMemHandle");
  const auto exported = Machine::get().memory.export_allocation(p);
  if (!exported)
    return fail(cudaErrorInvalidValue,
                "cudaIpcGetMemHandle: the memory must come from cudaMalloc in this process; got " +
                    Machine::get().memory.describe(p));
  static_assert(sizeof *exported <= sizeof *handle);
  *handle = {};
  std::memcpy(handle, &*exported, sizeof *exported);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle, unsigned flags) {
  if (Scheduler::runs_here()) return check_device(0);
  if (!p) return fail_no_place("cudaIpcOpenMemHandle");
  Memory::Export exported;
  std::memcpy(&exported, &handle, sizeof exported);
  if (exported.process == getpid())
    return fail(cudaErrorInvalidValue,
                "cudaIpcOpenMemHandle: the handle must come from another process");
  Machine& machine = Machine::get();
  *p = machine.memory.import_allocation(exported);
  if (*p && flags == cudaIpcMemLazyEnablePeerAccess) {
    const QuietLock lock(machine.mutex);
    const int device = machine.memory.find(*p)->device;
    machine.devices[static_cast<std::size_t>(this_host_thread().device)].peers |= 1u << device;
  }
  if (*p) return cudaSuccess;
  return fail(cudaErrorInvalidValue, "cudaIpcOpenMemHandle: process " +
                                         std::to_string(exported.process) +
                                         ", which made the handle, must live and be of this user");
}

cudaError_t cudaIpcCloseMemHandle(void* p) {
  Machine& machine = Machine::get();
  if (Scheduler::runs_here()) return check_device(0);
  const auto found = machine.memory.find(p);
  if (!found || !found->imported || !found->live || found->begin != p)
    return fail_free("cudaIpcCloseMemHandle", p);
  for (int device = 0; device < machine.options.num_devices; ++device)
    machine.wait_for_device(device);
  machine.memory.release(p);
  return check_device(found->device);
}
