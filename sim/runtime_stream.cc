// Streams, events and host functions.

#include <algorithm>

#include "sim/machine.h"
#include "sim/runtime_api.h"
#include "sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

std::shared_ptr<Op> last_op(Stream& stream) {
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  return stream.last;
}

cudaError_t fail_null(const char* call, const char* what) {
  return fail(cudaErrorInvalidResourceHandle,
              std::string(call) + ": there must be " + what + "; got none");
}

cudaError_t fail_captured(const char* call) {
  return fail(cudaErrorCapturedEvent,
              std::string(call) + ": the event was recorded in a capture, where nothing runs");
}

cudaError_t query(const std::shared_ptr<Op>& op, int device) {
  if (op && !Machine::get().engine.poll(op)) return cudaErrorNotReady;
  return check_device(device);
}

}  // namespace

// --- Streams -----------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)
    return fail(cudaErrorInvalidValue,
                "cudaStreamCreateWithFlags: flags must be cudaStreamDefault or "
                "cudaStreamNonBlocking; got " +
                    std::to_string(flags));
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  const int device = this_host_thread().device;
  auto& streams = machine.devices[static_cast<std::size_t>(device)].streams;
  streams.push_back(
      std::make_unique<Stream>(device, machine.num_streams++, flags != cudaStreamNonBlocking));
  *stream = streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

// CUDA returns at once and lets the stream's work go on; so do we, since ops know no streams.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return fail_null("cudaStreamDestroy", "a stream");
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  SimulatedDevice& device = machine.devices[static_cast<std::size_t>(stream->device)];
  // What it did still comes before what the device's default stream does next.
  if (stream->blocking && stream->last) device.ended.push_back(stream->last);
  if (stream->capture) stream->capture->invalid = true;
  std::erase_if(device.streams, [&](const auto& own) { return own.get() == stream; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Stream& on = Machine::get().resolve(stream);
  if (const cudaError_t error = check_device(on.device)) return error;
  if (const cudaError_t error = Machine::get().check_captures("cudaStreamSynchronize", &on))
    return error;
  Machine::get().wait(last_op(on));
  return check_device(on.device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Stream& on = Machine::get().resolve(stream);
  if (const cudaError_t error = Machine::get().check_captures("cudaStreamQuery", &on)) return error;
  return query(last_op(on), on.device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event) return fail_null("cudaStreamWaitEvent", "an event");
  Stream& on = Machine::get().resolve(stream);
  if (const cudaError_t error = check_device(on.device)) return error;
  return event->op ? Machine::get().submit(make_marker(), on, event->op) : cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  Stream& on = Machine::get().resolve(stream);
  if (const cudaError_t error = check_device(on.device)) return error;
  auto op = make_op(Op::Kind::host_function, "host function");
  op->kernel.body = [function, user_data] { function(user_data); };
  return Machine::get().submit(op, on);
}

// --- Events ------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Event(this_host_thread().device, !(flags & cudaEventDisableTiming));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return fail_null("cudaEventDestroy", "an event");
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!event) return fail_null("cudaEventRecord", "an event");
  Stream& on = Machine::get().resolve(stream);
  if (event->device != on.device)
    return fail(cudaErrorInvalidResourceHandle,
                "cudaEventRecord: the event and the stream must be of one device; got devices " +
                    std::to_string(event->device) + " and " + std::to_string(on.device));
  if (const cudaError_t error = check_device(on.device)) return error;
  const std::shared_ptr<Op> marker = make_marker();
  if (const cudaError_t error = Machine::get().submit(marker, on)) return error;
  event->op = marker;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event) return fail_null("cudaEventSynchronize", "an event");
  if (event->op && event->op->captured) return fail_captured("cudaEventSynchronize");
  Machine::get().wait(event->op);
  return check_device(event->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event) return fail_null("cudaEventQuery", "an event");
  if (event->op && event->op->captured) return fail_captured("cudaEventQuery");
  return query(event->op, event->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (const cudaEvent_t event : {begin, end}) {
    if (!event || !event->timing || !event->op)
      return fail(cudaErrorInvalidResourceHandle,
                  "cudaEventElapsedTime: both events must have been made for timing, and recorded");
    if (event->op->captured) return fail_captured("cudaEventElapsedTime");
    if (!event->op->done) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>((end->op->end_us - begin->op->end_us) / 1e3);
  return cudaSuccess;
}
