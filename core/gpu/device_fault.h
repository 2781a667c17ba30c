// Faults that a kernel finds in the values it was given.
//
// On a CPU an operator checks its indices before it computes. On a GPU it cannot do so without
// making the host wait. So kernels check the indices, skip those out of range, and leave a note in
// memory that the host can read. The next call that waits for the device anyway - item(), a copy to
// the CPU, synchronize() - throws the note as the IndexError that the CPU would have thrown, with
// the line of the call that was given the indices. So no number computed from bad indices leaves
// the device unnoticed.
//
// Work that waits for other processes leaves notes as well (device_watch.h).

#pragma once

#include <cstdint>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/base/shape.h"

namespace ringrad {

/// An index that is neither in [0, bound) nor equal to `ignored`.
struct BadIndex {
  const char* operation;  // "embedding"
  const char* what;       // "indices"
  std::int64_t value, bound;
  bool some_ignored;
  std::int64_t ignored;
  std::int64_t position;  // in row-major order of a tensor of `shape`
  Shape shape;
  Where where;
};

/// Throws IndexError "embedding: indices must be in [0, 10); got 12 at position (3,)".
[[noreturn]] void throw_bad_index(const BadIndex& index);

/// In pinned memory, one per device. A kernel takes the state from kNone to kInWriting, and to
/// kNoted once the note is there; the host takes it back to kNone after throwing. So at any time
/// either kernels of this device or the host may change the state. Kernels compete for it by an
/// atomic of device scope: few GPUs have atomics of system scope on the host's memory.
struct DeviceFault {
  static constexpr unsigned kNone = 0, kInWriting = 1, kNoted = 2;
  unsigned state;
  BadIndex index;
};

/// The place where kernels on `device` leave their note.
DeviceFault* device_fault(Device device, Where where);

/// Throws what kernels on `device` have noted, if anything, here or in a watch's note. It does not
/// wait for kernels that are still running.
void throw_device_fault(Device device);

}  // namespace ringrad
