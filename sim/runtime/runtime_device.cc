// Errors, devices and peers.

#include <algorithm>
#include <cstdio>

#include "ringrad/sim/machine.h"
#include "ringrad/sim/runtime/runtime_api.h"
#include "ringrad/sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

bool exists(int device) { return device >= 0 && device < Machine::get().options.num_devices; }

cudaError_t fail_device(const char* call, int device) {
  return fail(cudaErrorInvalidDevice, std::string(call) + ": the device must be in [0, " +
                                          std::to_string(Machine::get().options.num_devices) +
                                          "); got " + std::to_string(device));
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define RINGRAD_ROW(error, text) \
  { error, #error, text }
constexpr ErrorText kErrors[] = {
    RINGRAD_ROW(cudaSuccess, "no error"),
    RINGRAD_ROW(cudaErrorInvalidValue, "invalid argument"),
    RINGRAD_ROW(cudaErrorMemoryAllocation, "out of memory"),
    RINGRAD_ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    RINGRAD_ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    RINGRAD_ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    RINGRAD_ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    RINGRAD_ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    RINGRAD_ROW(cudaErrorPeerAccessUnsupported,
                "peer access is not supported between these two devices"),
    RINGRAD_ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    RINGRAD_ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    RINGRAD_ROW(cudaErrorNotReady, "device not ready"),
    RINGRAD_ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    RINGRAD_ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    RINGRAD_ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    RINGRAD_ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    RINGRAD_ROW(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    RINGRAD_ROW(cudaErrorHardwareStackError, "hardware stack error"),
    RINGRAD_ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    RINGRAD_ROW(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    RINGRAD_ROW(cudaErrorNotPermitted, "operation not permitted"),
    RINGRAD_ROW(cudaErrorNotSupported, "operation not supported"),
    RINGRAD_ROW(cudaErrorStreamCaptureUnsupported,
                "operation not permitted when stream is capturing"),
    RINGRAD_ROW(cudaErrorStreamCaptureInvalidated,
                "operation failed due to a previous error during capture"),
    RINGRAD_ROW(cudaErrorStreamCaptureUnmatched,
                "capture was not ended in the same stream as it began"),
    RINGRAD_ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    RINGRAD_ROW(cudaErrorStreamCaptureIsolation,
                "dependency created on uncaptured work in another stream"),
    RINGRAD_ROW(cudaErrorStreamCaptureImplicit,
                "operation would make the default stream depend on a capturing blocking stream"),
    RINGRAD_ROW(cudaErrorCapturedEvent,
                "operation not permitted on an event last recorded in a capturing stream"),
    RINGRAD_ROW(cudaErrorUnknown, "unknown error"),
};
#undef RINGRAD_ROW

const ErrorText& text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& row) { return row.error == error; });
  return found == std::end(kErrors) ? kErrors[std::size(kErrors) - 1] : *found;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

// A fault persists; other errors are cleared once they have been read.
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  this_host_thread().last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const HostThread& host = this_host_thread();
  const cudaError_t fault = check_device(host.device);
  return fault != cudaSuccess ? fault : host.last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return fail_no_place("cudaGetDeviceCount");
  *count = Machine::get().options.num_devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (Scheduler::runs_here()) return check_device(0);
  if (!exists(device)) return fail_device("cudaSetDevice", device);
  this_host_thread().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (!device) return fail_no_place("cudaGetDevice");
  *device = this_host_thread().device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return fail_device("cudaGetDeviceProperties", device);
  if (!properties) return fail_no_place("cudaGetDeviceProperties");
  *properties = {.name = {},
                 .uuid = {"simulated GPU"},
                 .totalGlobalMem = Machine::get().memory.bytes_per_device(),
                 .sharedMemPerBlock = kStaticSharedBytes,
                 .sharedMemPerBlockOptin = kMaxSharedBytes,
                 .sharedMemPerMultiprocessor = kMaxSharedBytes + 1024,
                 .regsPerBlock = 65536,
                 .warpSize = kWarpSize,
                 .maxThreadsPerBlock = kMaxThreadsPerBlock,
                 .maxThreadsPerMultiProcessor = 2048,
                 .maxBlocksPerMultiProcessor = 32,
                 .maxThreadsDim = {kMaxThreadsPerBlock, kMaxThreadsPerBlock, 64},
                 .maxGridSize = {2147483647, 65535, 65535},
                 .multiProcessorCount = static_cast<int>(kNumMultiprocessors),
                 .l2CacheSize = 50 << 20,
                 .major = 9,
                 .minor = 0,
                 .cooperativeLaunch = 1,
                 .unifiedAddressing = 1};
  std::snprintf(properties->name, sizeof properties->name, "Ringrad simulated GPU %d", device);
  properties->uuid.bytes[15] = static_cast<char>(device);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return fail_no_place("cudaRuntimeGetVersion");
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const int device = this_host_thread().device;
  if (const cudaError_t error = check_device(device)) return error;
  if (const cudaError_t error = Machine::get().check_captures("cudaDeviceSynchronize"))
    return error;
  Machine::get().wait_for_device(device);
  return check_device(device);
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (!can_access) return fail_no_place("cudaDeviceCanAccessPeer");
  if (!exists(device)) return fail_device("cudaDeviceCanAccessPeer", device);
  if (!exists(peer)) return fail_device("cudaDeviceCanAccessPeer", peer);
  const Topology& topology = Machine::get().clock.topology();
  *can_access =
      device != peer && device / topology.devices_per_host == peer / topology.devices_per_host;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  const int device = this_host_thread().device;
  if (const cudaError_t error = check_device(device)) return error;
  if (!exists(peer) || peer == device) return fail_device("cudaDeviceEnablePeerAccess", peer);
  if (flags != 0)
    return fail(cudaErrorInvalidValue,
                "cudaDeviceEnablePeerAccess: flags must be 0; got " + std::to_string(flags));
  int can_access = 0;
  cudaDeviceCanAccessPeer(&can_access, device, peer);
  const std::string pair =
      "device " + std::to_string(peer) + " from device " + std::to_string(device);
  if (!can_access)
    return fail(cudaErrorPeerAccessUnsupported,
                "cudaDeviceEnablePeerAccess: both must be on one host; got " + pair);
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  std::uint32_t& peers = machine.devices[static_cast<std::size_t>(device)].peers;
  if (peers >> peer & 1)
    return fail(cudaErrorPeerAccessAlreadyEnabled,
                "cudaDeviceEnablePeerAccess: it is enabled already for " + pair);
  peers |= 1u << peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  const int device = this_host_thread().device;
  if (const cudaError_t error = check_device(device)) return error;
  if (!exists(peer)) return fail_device("cudaDeviceDisablePeerAccess", peer);
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  std::uint32_t& peers = machine.devices[static_cast<std::size_t>(device)].peers;
  if (!(peers >> peer & 1))
    return fail(cudaErrorPeerAccessNotEnabled,
                "cudaDeviceDisablePeerAccess: it is not enabled for device " +
                    std::to_string(peer) + " from device " + std::to_string(device));
  peers &= ~(1u << peer);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (!pool) return fail_no_place("cudaDeviceGetDefaultMemPool");
  if (!exists(device)) return fail_device("cudaDeviceGetDefaultMemPool", device);
  *pool = &Machine::get().devices[static_cast<std::size_t>(device)];
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions,
                                 std::size_t count) {
  if (!pool || !descriptions) return fail_no_place("cudaMemPoolSetAccess");
  Machine& machine = Machine::get();
  for (std::size_t i = 0; i < count; ++i) {
    const cudaMemAccessDesc& access = descriptions[i];
    if (access.location.type != cudaMemLocationTypeDevice || !exists(access.location.id))
      return fail_device("cudaMemPoolSetAccess", access.location.id);
    const std::uint32_t user = 1u << access.location.id;
    const QuietLock lock(machine.mutex);
    access.flags == cudaMemAccessFlagsProtReadWrite ? pool->pool_users |= user
                                                    : pool->pool_users &= ~user;
  }
  return cudaSuccess;
}
