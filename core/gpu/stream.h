// Streams and events: the order of work on a GPU, as values that clean up after themselves.
//
// Work on a GPU is queued on a stream. The work of one stream runs in order; only events order the
// work of two streams.
//
//     current_stream(device)    where the calling thread's operators queue their work on that GPU:
//                               the device's default stream, unless a StreamGuard sets another
//
//     Stream side(device);
//     {
//       StreamGuard guard(side);
//       y = f(x);                            queued on `side`
//     }
//     Event done(side);                      everything queued on `side` up to here
//     done.block(current_stream(device));    later work on the current stream waits for it
//     record_stream(block, side);            a block that another stream allocated is not reused
//                                            before `side` is done with it (allocator_cuda.h)
//
// Work that a thread queues on one device's default stream runs in program order. Only events, and
// the copies between devices (transfer.h), order the default streams of two devices.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/cuda_handles.h"

namespace ringrad {

/// The number of GPUs; 0 without a driver.
int num_cuda_devices();

/// "NVIDIA H100 80GB HBM3"; the name of a simulated GPU says that it is simulated.
std::string gpu_name(Device device, Where where = Where::current());

/// True if the GPUs of this build are simulated (sim/README.md).
bool is_cuda_simulated();

/// Makes `device` the GPU of this thread's CUDA calls until the end of the scope; does nothing for
/// a CPU. Throws DeviceError if the GPU does not exist.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device, Where where = Where::current());
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;
};

/// A queue of work on one GPU. Copies of a Stream mean the same queue.
class Stream {
 public:
  /// A new stream. Throws DeviceError unless `device` is a GPU that exists.
  explicit Stream(Device device, Where where = Where::current());

  /// A stream that `owner` keeps alive; if `owner` is null, the caller must. A null handle means
  /// the default stream.
  Stream(Device device, cudaStream_t handle, std::shared_ptr<void> owner = nullptr)
      : device_(device), handle_(handle), owner_(std::move(owner)) {}

  Device device() const { return device_; }
  cudaStream_t handle() const { return handle_; }
  /// Keeps the stream alive while it is held.
  const std::shared_ptr<void>& owner() const { return owner_; }

  /// Waits until all its work is done. Throws CudaError for a fault, and IndexError for an index
  /// that a kernel found out of range.
  void synchronize(Where where = Where::current()) const;

  bool operator==(const Stream& other) const {
    return device_ == other.device_ && handle_ == other.handle_;
  }

 private:
  Device device_;
  cudaStream_t handle_;
  std::shared_ptr<void> owner_;
};

/// The stream on which the calling thread's operators queue work on `device`. REQUIRES: device is a
/// GPU
Stream current_stream(Device device);

/// Makes `stream` the current stream of its device until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// A point in a stream's work.
class Event {
 public:
  /// The point after everything queued on `stream` so far.
  explicit Event(const Stream& stream, bool timing = false, Where where = Where::current());

  /// Later work on `stream` waits for the event; the host does not.
  void block(const Stream& stream, Where where = Where::current()) const;
  bool is_done(Where where = Where::current()) const;
  /// Waits for the event. Throws as Stream::synchronize.
  void synchronize(Where where = Where::current()) const;
  /// Waits for the event without checking what kernels have noted.
  void wait(Where where = Where::current()) const;

  /// The time between two events. REQUIRES: both were made with timing. On simulated GPUs the time
  /// is simulated.
  static double milliseconds(const Event& begin, const Event& end, Where where = Where::current());

 private:
  Device device_;
  std::shared_ptr<void> handle_;
};

/// Throws CudaError if this thread is capturing work (capture.h), since work that has not run
/// cannot be waited for.
void refuse_while_capturing(const char* what, Where where);

/// Waits until all work on the device is done; does nothing for a CPU. Throws as
/// Stream::synchronize.
void synchronize(Device device, Where where = Where::current());

namespace detail {
inline constinit thread_local bool is_capturing = false;
}  // namespace detail

}  // namespace ringrad
