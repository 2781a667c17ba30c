// DeviceWatch: watches work on a GPU that waits for something that may never come, such as a
// signal of another process, and that must then be given up.
//
// If it does not come, the work gives up by itself, or never ends. So
//
//     - whichever gives up, a kernel or the host, leaves a note in memory that both can reach. The
//       next call that waits for the GPU - item(), a copy to the CPU, synchronize() - throws the
//       note as an error, so that no missing result leaves the device unnoticed;
//     - a thread that waits for the GPU checks meanwhile whether the work still has a chance, and
//       stops waiting if it has none.
//
// The layer above defines what the work waits for, what its notes contain and which errors they are
// (parallel/comm/gpu/rank_watch.h). A watch belongs to the thread that claimed it last, so threads
// that share a GPU each get their own errors. A thread that has no watch of this GPU checks all of
// them.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"

namespace ringrad {

/// A note that work was given up, in pinned memory. Its contents follow, in a type derived from
/// this one. The writer takes the state from kNone to kInWriting, and to kNoted once the contents
/// are there; the thread that throws the note takes it back to kNone. The first note counts.
/// Writers are kernels of one device or threads of the host, never both: few GPUs have atomics of
/// system scope on the host's memory.
struct DeviceNote {
  static constexpr unsigned kNone = 0, kInWriting = 1, kNoted = 2;
  static constexpr std::size_t kMostBytes = 128;  ///< of a derived type
  unsigned state;
};

class DeviceWatch {
 public:
  struct Watch;  // the part that remains until its note is thrown

  /// True while the work waits. Throws if it has been given up. Any thread may call it.
  using Look = std::function<bool()>;
  /// Throws the error that a note means.
  using Throw = void (*)(const DeviceNote& note);

  DeviceWatch(Device device, Look look, Throw throw_note, Where where);
  /// Stops the checks; a note stays until it is thrown. REQUIRES: no kernel writes a note, or
  /// abandon() was called
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Says that the calling thread now queues the work.
  void claim();

  /// The note. Before it is filled in, its contents are zeros or those of an earlier note.
  DeviceNote& note() const;
  /// Calls `write` to fill in the note, unless there is one.
  void leave_note(const std::function<void(DeviceNote& note)>& write);
  void forget_note();
  /// Says that kernels may write the note even after the watch's end.
  void abandon();

 private:
  const std::shared_ptr<Watch> watch_;
};

/// Returns when is_done() is true, or when none of the watched work on the device that concerns
/// this thread is waiting.
///
/// Throws:  what the work's Look throws if it has been given up
void await_watched_work(Device device, const std::function<bool()>& is_done);

/// Throws the error of the note on the device that concerns this thread, if there is one.
void throw_device_note(Device device);

}  // namespace ringrad
