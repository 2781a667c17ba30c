// How long tests wait. A busy machine may take many times as long as an idle one, so limits that
// must not be reached count the time in which the test itself runs (running_time.h), and deadlines
// that a test lets pass leave time for the calls before it.

#pragma once

#include <chrono>

#include "ringrad/parallel/comm/common/running_time.h"

namespace ringrad::testing {

/// The longest that what a test waits for may take before it counts as hanging. Longer with
/// sanitizers, where ranks take several times as long.
#ifdef RINGRAD_SANITIZE
inline constexpr std::chrono::seconds kPatience(120);
#else
inline constexpr std::chrono::seconds kPatience(45);
#endif

/// The deadline of groups in which a rank never comes, after calls that end. Some of these tests
/// stall a GPU for 5 s at most (stall.h).
inline constexpr std::chrono::seconds kShortDeadline = kPatience / 45;

/// How often a test looks.
inline constexpr std::chrono::milliseconds kTick(10);

/// True as soon as `happens(kTick)`, which waits for so long, is true; false if it is not within
/// `patience`.
template <class Happens>
bool happens_in_time(Happens happens, std::chrono::nanoseconds patience = kPatience) {
  for (RunningTime waited(kTick); waited.advance() < patience;)
    if (happens(kTick)) return true;
  return false;
}

}  // namespace ringrad::testing
