// Finds the fastest of several ways to compute the same result on a GPU by timing them. Private to
// kernels/.

#pragma once

#include <limits>
#include <optional>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/capture.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad::kernels {

/// The index i < count whose run(i) takes the shortest time on the device's current stream, or
/// nullopt if all fail; run returns false if it fails. During capture nothing runs, so index 0 is
/// returned untried. A single candidate is run but not timed.
template <class Run>
std::optional<int> fastest(Device device, int count, const Run& run, Where where) {
  constexpr int kTimedRuns = 3;
  if (is_capturing()) return count > 0 ? std::optional(0) : std::nullopt;
  if (count == 1) return run(0) ? std::optional(0) : std::nullopt;
  std::optional<int> chosen;
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    if (!run(i)) continue;  // this first run also warms up
    const Stream stream = current_stream(device);
    const Event begin(stream, /*timing=*/true, where);
    for (int k = 0; k < kTimedRuns; ++k) run(i);
    const Event end(stream, /*timing=*/true, where);
    end.wait(where);
    const double time = Event::milliseconds(begin, end, where);
    if (time >= shortest) continue;
    shortest = time;
    chosen = i;
  }
  return chosen;
}

}  // namespace ringrad::kernels
