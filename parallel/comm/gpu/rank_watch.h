// RankWatch: watches a rank's work on a GPU that waits for other ranks (core/gpu/device_watch.h).
// There is one per rank and GPU. Its note names the rank that did not arrive.

#pragma once

#include <cstdint>
#include <utility>

#include "ringrad/core/gpu/device_watch.h"

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

struct LateNote : DeviceNote {
  LateRank late;
};
static_assert(sizeof(LateNote) <= DeviceNote::kMostBytes);

/// Throws CollectiveError "all_reduce #3 on rank 0: every rank must arrive on its GPU within 60 s;
/// got nothing from rank 1".
[[noreturn]] void throw_late_rank(const LateRank& late);

class RankWatch : public DeviceWatch {
 public:
  RankWatch(Device device, Look look, Where where)
      : DeviceWatch(
            device, std::move(look),
            [](const DeviceNote& note) {
              throw_late_rank(static_cast<const LateNote&>(note).late);
            },
            where) {}

  LateNote* note() const { return static_cast<LateNote*>(&DeviceWatch::note()); }
  void leave_note(const LateRank& late) {
    DeviceWatch::leave_note([&](DeviceNote& note) { static_cast<LateNote&>(note).late = late; });
  }
};

}  // namespace ringrad
