// What a kernel found wrong with the values it was given.
//
// On a CPU an operator looks at its indices before it computes. On a GPU it cannot, without making the
// host wait: so kernels check them, skip what is out of range, and leave a note in memory that the host
// can read. The next call that waits for the device anyway - item(), a copy to the CPU, synchronize() -
// throws it as the IndexError that the CPU would have thrown, with the line of the call that was
// given the indices. So no number that came of them leaves the device unnoticed.
//
// What waits for other ranks leaves notes too, each rank's in a place of its own (device_watch.h).

#pragma once

#include <cstdint>

#include "core/device.h"
#include "core/error.h"
#include "core/shape.h"

namespace ringrad {

/// An index that lies neither in [0, bound) nor is `ignored`.
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

/// IndexError "embedding: indices must be in [0, 10); got 12 at position (3,)".
[[noreturn]] void throw_bad_index(const BadIndex& index);

/// In pinned memory, one per device. A kernel takes it from kNone to kInWriting, and to kNoted once
/// the note is there; the host, having thrown it, back to kNone. Kernels change the state by atomics of
/// system scope: the host does so at the same time.
struct DeviceFault {
  static constexpr unsigned kNone = 0, kInWriting = 1, kNoted = 2;
  unsigned state;
  BadIndex index;
};

/// The place where kernels on `device` leave their note.
DeviceFault* device_fault(Device device, Where where);

/// Throws what kernels on `device` have noted, if anything, late ranks too; those that still run are not waited for.
void throw_device_fault(Device device);

}  // namespace ringrad
