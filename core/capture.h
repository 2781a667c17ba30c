// Work captured once and replayed: one call to the GPU instead of hundreds.
//
//     Capture capture(device);
//     capture.record([&] { y = f(x); });       nothing runs, all launches are recorded
//     capture.replay();                        all of it runs, on the current stream
//
// A replay reads and writes the recorded addresses. Memory that the work allocates therefore
// belongs to the capture (PrivatePool) and keeps its address; all other memory must stay where it
// is. nn/captured_step.h builds a whole training step on this.
//
// A kernel's arguments are fixed when it is captured. A value that the host chooses at each step
// must therefore reach the device as a replayed_value().
//
// A thread that captures must not read from the device, because nothing has run yet. Every function
// that waits for a device then throws CudaError.

#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/cuda_handles.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

class Capture {
 public:
  /// Throws DeviceError unless `device` is a GPU.
  explicit Capture(Device device, Where where = Where::current());
  /// Waits for replays that are still running.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Records what body() queues on the device's current stream, instead of running it. May be
  /// called once.
  /// Throws what body throws, and CudaError if body does something that cannot be captured; nothing
  /// is kept then.
  void record(const std::function<void()>& body, Where where = Where::current());

  /// Runs the recorded work on the current stream. REQUIRES: record() has returned
  void replay(Where where = Where::current());

  /// The number of recorded kernels, copies and fills.
  std::size_t num_nodes() const { return num_nodes_; }

 private:
  friend void at_each_replay(std::function<void()> prepare);
  friend struct CapturedMemory allocate_for_capture(std::size_t bytes);

  Device device_;
  std::unique_ptr<class PrivatePool> pool_;
  // Memory of replayed values. It is apart from the pool, because captured work that runs before a
  // value's use could have the same block there, and would overwrite the value in each replay.
  std::unique_ptr<PrivatePool> values_pool_;
  std::vector<void*> values_;
  std::vector<std::function<void()>> prepare_;
  cudaGraphExec_t executable_ = nullptr;
  std::size_t num_nodes_ = 0;
};

/// True while a Capture records on this thread.
inline bool is_capturing() { return detail::is_capturing; }

/// Calls `prepare` before each replay of the work that is being captured, in the order of
/// registration.
/// REQUIRES: is_capturing()
void at_each_replay(std::function<void()> prepare);

/// An address on the device. At each replay it holds what `value` returned just before.
/// REQUIRES: is_capturing(); T is trivially copyable
template <class T>
const T* replayed_value(std::function<T()> value);

/// A kernel's argument that may be a replayed value: place ? *place : value.
template <class T>
struct Replayed {
  T value;
  const T* place;  ///< on the device, or null
};

/// What `value` returns now. In work that is being captured, `value` is called again before each
/// replay.
template <class T>
Replayed<T> replayed(const std::function<T()>& value);

// Implementation details follow.

/// Device memory that lives as long as the capture.
struct CapturedMemory {
  void* address;
  Device device;
};
CapturedMemory allocate_for_capture(std::size_t bytes);
void send_before_replay(const CapturedMemory& to, const void* from, std::size_t bytes);

template <class T>
const T* replayed_value(std::function<T()> value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const CapturedMemory place = allocate_for_capture(sizeof(T));
  at_each_replay([place, value = std::move(value)] {
    const T now = value();
    send_before_replay(place, &now, sizeof now);
  });
  return static_cast<const T*>(place.address);
}

template <class T>
Replayed<T> replayed(const std::function<T()>& value) {
  return {value(), is_capturing() ? replayed_value<T>(value) : nullptr};
}

}  // namespace ringrad
