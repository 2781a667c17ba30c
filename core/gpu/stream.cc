#include "ringrad/core/gpu/stream.h"

#include <cuda_flavour.h>

#include <array>
#include <cstdlib>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/device_fault.h"
#include "ringrad/core/gpu/device_watch.h"

namespace ringrad {
namespace {

// The thread's current streams; null means a device's default stream.
struct CurrentStream {
  cudaStream_t handle = nullptr;
  std::shared_ptr<void> owner;
};
thread_local std::array<CurrentStream, kMaxCudaDevices> current_streams;

// Requests as many hardware queues as a GPU has, unless the user has set a number. Streams that
// share a queue block each other, and threads that share a GPU have more streams than the driver's
// default of 8 queues. This is set before main(), while there is only one thread and no CUDA call
// has read it.
[[maybe_unused]] const int queues_are_set =
    RINGRAD_GPUS ? setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0) : 0;

unsigned slot(Device device) { return static_cast<unsigned>(device.index); }

struct FoundDevices {
  int count = 0;
  std::string error;  // CUDA's reason if there are none
};

const FoundDevices& found_devices() {
  static const FoundDevices found = [] {
    FoundDevices devices;
    const cudaError_t status = cudaGetDeviceCount(&devices.count);
    if (status == cudaSuccess) return devices;
    cudaGetLastError();
    return FoundDevices{0, concat(": ", cudaGetErrorString(status))};
  }();
  return found;
}

cudaEvent_t event_of(const std::shared_ptr<void>& handle) {
  return static_cast<cudaEvent_t>(handle.get());
}

}  // namespace

int num_cuda_devices() { return found_devices().count; }

std::string gpu_name(Device device, Where where) {
  const DeviceGuard exists(device, where);
  cudaDeviceProp properties;
  RINGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index), where);
  return properties.name;
}

bool is_cuda_simulated() { return kSimulatedCuda; }

DeviceGuard::DeviceGuard(Device device, Where where) {
  if (device.is_cpu()) return;
  RINGRAD_CHECK(device.index < num_cuda_devices(), DeviceError, where, "device: ", device,
                " must exist; got ", num_cuda_devices(),
                is_cuda_simulated() ? " simulated GPUs" : " GPUs", found_devices().error);
  int now = 0;
  RINGRAD_CUDA_CHECK(cudaGetDevice(&now), where);
  if (now == device.index) return;
  RINGRAD_CUDA_CHECK(cudaSetDevice(device.index), where);
  before_ = now;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Stream::Stream(Device device, Where where) : device_(device) {
  RINGRAD_CHECK(device.is_cuda(), DeviceError, where, "stream: the device must be a GPU; got ",
                device);
  const DeviceGuard guard(device, where);
  RINGRAD_CUDA_CHECK(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), where);
  owner_ = std::shared_ptr<void>(handle_, [](void* handle) {
    const cudaError_t status = cudaStreamDestroy(static_cast<cudaStream_t>(handle));
    if (status != cudaSuccess) report_cuda_error(status, "cudaStreamDestroy");
  });
}

void refuse_while_capturing(const char* what, Where where) {
  RINGRAD_CHECK(!detail::is_capturing, CudaError, where,
                "capture: a captured step must be work that the device repeats alone; got ", what);
}

void Stream::synchronize(Where where) const {
  refuse_while_capturing("synchronize()", where);
  const DeviceGuard guard(device_, where);
  await_watched_work(device_, [this] { return cudaStreamQuery(handle_) != cudaErrorNotReady; });
  RINGRAD_CUDA_CHECK(cudaStreamSynchronize(handle_), where);
  throw_device_fault(device_);
}

Stream current_stream(Device device) {
  const CurrentStream& current = current_streams[slot(device)];
  return {device, current.handle, current.owner};
}

StreamGuard::StreamGuard(const Stream& stream) : before_(current_stream(stream.device())) {
  current_streams[slot(stream.device())] = {stream.handle(), stream.owner()};
}

StreamGuard::~StreamGuard() {
  current_streams[slot(before_.device())] = {before_.handle(), before_.owner()};
}

Event::Event(const Stream& stream, bool timing, Where where) : device_(stream.device()) {
  const DeviceGuard guard(device_, where);
  cudaEvent_t event = nullptr;
  RINGRAD_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming), where);
  handle_ = std::shared_ptr<void>(event, [](void* handle) {
    const cudaError_t status = cudaEventDestroy(static_cast<cudaEvent_t>(handle));
    if (status != cudaSuccess) report_cuda_error(status, "cudaEventDestroy");
  });
  RINGRAD_CUDA_CHECK(cudaEventRecord(event, stream.handle()), where);
}

void Event::block(const Stream& stream, Where where) const {
  const DeviceGuard guard(stream.device(), where);
  RINGRAD_CUDA_CHECK(cudaStreamWaitEvent(stream.handle(), event_of(handle_), 0), where);
}

bool Event::is_done(Where where) const {
  const cudaError_t status = cudaEventQuery(event_of(handle_));
  if (status == cudaErrorNotReady) return false;
  RINGRAD_CUDA_CHECK(status, where);
  return true;
}

void Event::synchronize(Where where) const {
  wait(where);
  throw_device_fault(device_);
}

void Event::wait(Where where) const {
  refuse_while_capturing("synchronize()", where);
  await_watched_work(device_,
                     [this] { return cudaEventQuery(event_of(handle_)) != cudaErrorNotReady; });
  RINGRAD_CUDA_CHECK(cudaEventSynchronize(event_of(handle_)), where);
}

double Event::milliseconds(const Event& begin, const Event& end, Where where) {
  float elapsed = 0;
  RINGRAD_CUDA_CHECK(cudaEventElapsedTime(&elapsed, event_of(begin.handle_), event_of(end.handle_)),
                     where);
  return elapsed;
}

void synchronize(Device device, Where where) {
  if (device.is_cpu()) return;
  refuse_while_capturing("synchronize()", where);
  const DeviceGuard guard(device, where);
  await_watched_work(device, [] { return false; });
  RINGRAD_CUDA_CHECK(cudaDeviceSynchronize(), where);
  throw_device_fault(device);
}

}  // namespace ringrad
