// DeviceWatch: what a rank of a group has on a GPU that waits for other ranks. One per rank and GPU.
//
// Other ranks may be late, or die. What waits for them on the GPU then gives up, or would never end. So
//
//     - who gives up, a kernel or the host, leaves a note in memory that both reach, and the rank's next call that
//       waits for the GPU - item(), a copy to the CPU, synchronize() - throws it as CollectiveError: no result that
//       is not there leaves the device unnoticed;
//     - a thread that waits for the GPU looks meanwhile whether the other ranks are well, and stops waiting if they
//       are not.
//
// A watch belongs to the thread that made the rank's latest call: ranks that are threads and share a GPU are told
// each of its own. A thread that has no watch of this GPU looks at all of them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/device.h"
#include "core/error.h"

namespace ringrad {

/// A rank of a group that did not come in time, or did not because the group was broken.
struct LateRank {
  const char* operation;  // "all_reduce"
  int rank, peer;         // who waited for whom; peer -1 for the group as a whole
  std::uint64_t sequence;
  double seconds;  // how long at most
  bool aborted;
  Where where;
};

/// CollectiveError "all_reduce #3 on rank 0: every rank must arrive on its GPU within 60 s; got nothing from
/// rank 1".
[[noreturn]] void throw_late_rank(const LateRank& late);

/// In pinned memory. Who writes takes it from kNone to kInWriting, and to kNoted once the note is there; who has
/// thrown it, back to kNone. The first note counts. Kernels change the state by atomics of system scope.
struct LateNote {
  static constexpr unsigned kNone = 0, kInWriting = 1, kNoted = 2;
  unsigned state;
  LateRank late;
};

class DeviceWatch {
 public:
  struct Place;  // what stays of it until its note is thrown

  /// True while work on the GPU waits for other ranks. Throws when it has been given up. Any thread may call it.
  using Look = std::function<bool()>;

  DeviceWatch(Device device, Look look, Where where);
  /// Nobody looks any more; a note stays until it is thrown. REQUIRES: no kernel writes one, or abandon()
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// The calling thread makes the rank's calls.
  void claim();

  LateNote* note() const;
  void leave_note(const LateRank& late);
  void forget_note();
  /// Kernels may write the note even after the watch's end.
  void abandon();

 private:
  const std::shared_ptr<Place> place_;
};

/// Returns when `is_done`, or when nothing on the device that concerns this thread waits for other ranks.
///
/// Throws: CollectiveError when that has been given up
void watch_ranks(Device device, const std::function<bool()>& is_done);

/// Throws what was noted on the device and concerns this thread, if anything.
void throw_late_note(Device device);

}  // namespace ringrad
