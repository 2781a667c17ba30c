// DeviceWatch: watches a rank's work on a GPU that waits for other ranks. There is one per rank and
// GPU.
//
// Other ranks may be late or die. Work that waits for them on the GPU then gives up, or would never
// end. So
//
//     - whichever gives up, a kernel or the host, leaves a note in memory that both can reach. The
//       rank's next call that waits for the GPU - item(), a copy to the CPU, synchronize() - throws
//       the note as CollectiveError, so that no missing result leaves the device unnoticed;
//     - a thread that waits for the GPU checks meanwhile whether the other ranks are well, and
//       stops waiting if they are not.
//
// A watch belongs to the thread that made the rank's latest call, so ranks that are threads and
// share a GPU each get their own errors. A thread that has no watch of this GPU checks all of them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ringrad/core/device.h"
#include "ringrad/core/error.h"

namespace ringrad {

/// A rank of a group that did not arrive in time, or did not arrive because the group was broken.
struct LateRank {
  const char* operation;  // "all_reduce"
  int rank, peer;         // the waiting rank and its peer; peer -1 for the group as a whole
  std::uint64_t sequence;
  double seconds;  // the time limit
  bool aborted;
  Where where;
};

/// Throws CollectiveError "all_reduce #3 on rank 0: every rank must arrive on its GPU within 60 s;
/// got nothing from rank 1".
[[noreturn]] void throw_late_rank(const LateRank& late);

/// In pinned memory. The writer takes the state from kNone to kInWriting, and to kNoted once the
/// note is there; the thread that throws the note takes it back to kNone. The first note counts.
/// Kernels change the state by atomics of system scope.
struct LateNote {
  static constexpr unsigned kNone = 0, kInWriting = 1, kNoted = 2;
  unsigned state;
  LateRank late;
};

class DeviceWatch {
 public:
  struct Watch;  // the part that remains until its note is thrown

  /// True while work on the GPU waits for other ranks. Throws if that work has been given up. Any
  /// thread may call it.
  using Look = std::function<bool()>;

  DeviceWatch(Device device, Look look, Where where);
  /// Stops the checks; a note stays until it is thrown. REQUIRES: no kernel writes a note, or
  /// abandon() was called
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Says that the calling thread now makes the rank's calls.
  void claim();

  LateNote* note() const;
  void leave_note(const LateRank& late);
  void forget_note();
  /// Says that kernels may write the note even after the watch's end.
  void abandon();

 private:
  const std::shared_ptr<Watch> watch_;
};

/// Returns when `is_done`, or when no work on the device that concerns this thread waits for other
/// ranks.
///
/// Throws:  CollectiveError if that work has been given up
void watch_ranks(Device device, const std::function<bool()>& is_done);

/// Throws the note on the device that concerns this thread, if there is one.
void throw_late_note(Device device);

}  // namespace ringrad
