// Streams, events and host functions.

#include <unistd.h>

#include <cstring>
#include <utility>

#include "ringrad/sim/block.h"
#include "ringrad/sim/machine.h"
#include "ringrad/sim/runtime/runtime_api.h"
#include "ringrad/sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

std::shared_ptr<Op> last_op(Stream& stream) {
  const QuietLock lock(Machine::get().mutex);
  return stream.last;
}

cudaError_t fail_captured(const char* call) {
  return fail(cudaErrorCapturedEvent,
              std::string(call) + ": the event was recorded in a capture, where nothing runs");
}

// Waits like a spinning kernel. The scheduler cannot see another process, so work that takes that
// process longer than hang_limit counts as a deadlock.
std::shared_ptr<Op> make_wait(const std::shared_ptr<SharedEvent>& shared) {
  auto op = make_op(Op::Kind::host_function, "wait for an event of several processes");
  op->device = shared->device();
  op->kernel.device = shared->device();
  op->kernel.body = [shared, number = shared->latest()] {
    while (!shared->is_done(number)) Block::current()->spin(Site::here());
  };
  return op;
}

std::shared_ptr<Op> make_record(const std::shared_ptr<SharedEvent>& shared, std::uint64_t number) {
  auto op = make_op(Op::Kind::host_function, "record an event of several processes");
  op->kernel.body = [shared, number] { shared->finish(number); };
  return op;
}

cudaError_t add_event(std::unique_ptr<Event> made, cudaEvent_t* event) {
  Machine& machine = Machine::get();
  *event = made.get();
  const QuietLock lock(machine.mutex);
  machine.events.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

cudaError_t query(const std::shared_ptr<Op>& op, int device) {
  if (op && !Machine::get().scheduler.poll(op)) return cudaErrorNotReady;
  return check_device(device);
}

}  // namespace

// --- Streams -------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)
    return fail(cudaErrorInvalidValue,
                "cudaStreamCreateWithFlags: flags must be cudaStreamDefault or "
                "cudaStreamNonBlocking; got " +
                    std::to_string(flags));
  if (!stream) return fail_no_place("cudaStreamCreateWithFlags");
  Machine& machine = Machine::get();
  const int device = this_host_thread().device;
  if (const cudaError_t error = check_device(device)) return error;
  const QuietLock lock(machine.mutex);
  SimulatedDevice& on = machine.devices[static_cast<std::size_t>(device)];
  on.streams.push_back(
      on.make_stream(device, machine.num_streams++, flags != cudaStreamNonBlocking));
  *stream = on.streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

// CUDA returns at once and lets the stream's work go on. The simulator does the same, since ops do
// not refer to streams.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (!stream)
    return fail(cudaErrorInvalidResourceHandle,
                "cudaStreamDestroy: the default stream cannot be destroyed");
  if (const cudaError_t error = machine.resolve("cudaStreamDestroy", stream)) return error;
  const QuietLock lock(machine.mutex);
  SimulatedDevice& device = machine.devices[static_cast<std::size_t>(stream->device)];
  if (!kTsan)  // ThreadSanitizer must also know the order of finished work
    std::erase_if(device.ended,
                  [&](const auto& other) { return machine.scheduler.is_done(*other.last); });
  if (stream->last) device.ended.push_back({stream->last, stream->blocking});
  if (const std::shared_ptr<Capture> capture = stream->capture) {
    capture->invalid = true;
    if (capture->began_on(*stream)) machine.end_capture(capture);
  }
  std::erase_if(device.streams, [&](const auto& own) { return own.get() == stream; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve("cudaStreamSynchronize", stream)) return error;
  if (const cudaError_t error = machine.check_captures("cudaStreamSynchronize", stream))
    return error;
  machine.wait(last_op(*stream));
  return check_device(stream->device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve("cudaStreamQuery", stream)) return error;
  if (const cudaError_t error = machine.check_captures("cudaStreamQuery", stream)) return error;
  return query(last_op(*stream), stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Machine& machine = Machine::get();
  std::optional<Event> now;
  if (const cudaError_t error = machine.resolve("cudaStreamWaitEvent", stream)) return error;
  if (const cudaError_t error = machine.resolve("cudaStreamWaitEvent", event, now)) return error;
  if (now->shared) {
    if (const cudaError_t error = machine.check_captures("cudaStreamWaitEvent", stream))
      return error;
    return now->shared->is_done(now->shared->latest())
               ? cudaSuccess
               : machine.submit(make_wait(now->shared), *stream);
  }
  return now->op ? machine.submit(make_marker(), *stream, now->op) : cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve("cudaLaunchHostFunc", stream)) return error;
  if (!function) return fail(cudaErrorInvalidValue, "cudaLaunchHostFunc: there must be a function");
  auto op = make_op(Op::Kind::host_function, "host function");
  op->kernel.body = [function, user_data] { function(user_data); };
  return machine.submit(op, *stream);
}

// --- Events --------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (!event) return fail_no_place("cudaEventCreateWithFlags");
  const bool timing = !(flags & cudaEventDisableTiming);
  const bool shared = flags & cudaEventInterprocess;
  if (shared && timing)
    return fail(cudaErrorInvalidValue,
                "cudaEventCreateWithFlags: an interprocess event must have cudaEventDisableTiming");
  const int device = this_host_thread().device;
  if (const cudaError_t error = check_device(device)) return error;
  auto made = std::make_unique<Event>(device, timing, shared ? SharedEvent::make(device) : nullptr);
  if (shared && !made->shared)
    return fail(cudaErrorMemoryAllocation, "cudaEventCreateWithFlags: no shared memory");
  return add_event(std::move(made), event);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Machine& machine = Machine::get();
  std::optional<Event> now;
  if (const cudaError_t error = machine.resolve("cudaEventDestroy", event, now)) return error;
  const QuietLock lock(machine.mutex);
  machine.events.erase(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Machine& machine = Machine::get();
  std::optional<Event> now;
  if (const cudaError_t error = machine.resolve("cudaEventRecord", event, now)) return error;
  if (const cudaError_t error = machine.resolve("cudaEventRecord", stream)) return error;
  if (now->device != stream->device)
    return fail(cudaErrorInvalidResourceHandle,
                "cudaEventRecord: the event and the stream must be of one device; got devices " +
                    std::to_string(now->device) + " and " + std::to_string(stream->device));
  if (now->shared)
    if (const cudaError_t error = machine.check_captures("cudaEventRecord", stream)) return error;
  const std::uint64_t number = now->shared ? now->shared->record() : 0;
  const std::shared_ptr<Op> marker = now->shared ? make_record(now->shared, number) : make_marker();
  if (const cudaError_t error = machine.submit(marker, *stream)) {
    if (now->shared) now->shared->finish(number);  // nothing was recorded, so no op may wait for it
    return error;
  }
  const QuietLock lock(machine.mutex);
  if (const auto found = machine.events.find(event); found != machine.events.end())
    found->second->op = marker;
  return cudaSuccess;
}

// The wait is for the record that was latest when the call was made.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine& machine = Machine::get();
  std::optional<Event> now;
  if (const cudaError_t error = machine.resolve("cudaEventSynchronize", event, now)) return error;
  if (now->shared) {
    const std::shared_ptr<Op> wait = make_wait(now->shared);
    machine.scheduler.submit(wait, {});
    machine.wait(wait);
    return check_device(now->device);
  }
  if (!now->op) return cudaSuccess;
  if (now->op->captured) return fail_captured("cudaEventSynchronize");
  machine.wait(now->op);
  return check_device(now->op->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Machine& machine = Machine::get();
  std::optional<Event> now;
  if (const cudaError_t error = machine.resolve("cudaEventQuery", event, now)) return error;
  if (now->shared) {
    if (now->op && !machine.scheduler.poll(now->op)) return cudaErrorNotReady;
    if (!now->shared->is_done(now->shared->latest())) return cudaErrorNotReady;
    return check_device(now->device);
  }
  if (!now->op) return cudaSuccess;
  if (now->op->captured) return fail_captured("cudaEventQuery");
  return query(now->op, now->op->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  constexpr const char* kCall = "cudaEventElapsedTime";
  if (!milliseconds) return fail_no_place(kCall);
  Machine& machine = Machine::get();
  double elapsed_us = 0;
  for (const auto& [event, sign] : {std::pair{begin, -1}, std::pair{end, 1}}) {
    std::optional<Event> now;
    if (const cudaError_t error = machine.resolve(kCall, event, now)) return error;
    if (const cudaError_t error = check_device(now->device)) return error;
    if (!now->timing || !now->op)
      return fail(cudaErrorInvalidResourceHandle,
                  "cudaEventElapsedTime: both events must have been made for timing, and recorded");
    if (now->op->captured) return fail_captured(kCall);
    if (!machine.scheduler.is_done(*now->op)) return cudaErrorNotReady;
    elapsed_us += sign * now->op->end_us;
  }
  *milliseconds = static_cast<float>(elapsed_us / 1e3);
  return cudaSuccess;
}

// --- Events of several processes -----------------------------------------------------------------

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  if (!handle) return fail_no_place("cudaIpcGetEventHandle");
  std::optional<Event> now;
  if (const cudaError_t error = Machine::get().resolve("cudaIpcGetEventHandle", event, now))
    return error;
  if (!now->shared)
    return fail(cudaErrorInvalidResourceHandle,
                "cudaIpcGetEventHandle: the event must have been made with cudaEventInterprocess");
  const SharedEvent::Export exported = now->shared->exported();
  static_assert(sizeof exported <= sizeof *handle);
  *handle = {};
  std::memcpy(handle, &exported, sizeof exported);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  if (!event) return fail_no_place("cudaIpcOpenEventHandle");
  SharedEvent::Export exported;
  std::memcpy(&exported, &handle, sizeof exported);
  if (exported.process == getpid())
    return fail(cudaErrorInvalidValue,
                "cudaIpcOpenEventHandle: the handle must come from another process");
  if (exported.device < 0 || exported.device >= Machine::get().options.num_devices)
    return fail(cudaErrorInvalidValue, "cudaIpcOpenEventHandle: device " +
                                           std::to_string(exported.device) + " must exist");
  std::shared_ptr<SharedEvent> shared = SharedEvent::open(exported);
  if (!shared)
    return fail(cudaErrorInvalidValue,
                "cudaIpcOpenEventHandle: process " + std::to_string(exported.process) +
                    ", which made the handle, must live and be of this user");
  const int device = shared->device();
  return add_event(std::make_unique<Event>(device, /*timing=*/false, std::move(shared)), event);
}
