#pragma once

// A group whose all_reduce takes as long as it would over a slower link, to measure how much of
// that time is hidden.

#include <memory>

#include "ringrad/parallel/comm/communicator.h"

namespace ringrad::bench {

/// Forwards all collectives to `comm`; an all_reduce of S bytes also sleeps until latency_s + 2 (n
/// - 1)/n S / bytes_per_s have passed, the time of a ring over links of that speed.
///
/// REQUIRES: comm outlives it
std::unique_ptr<Communicator> over_slow_link(Communicator& comm, double latency_s,
                                             double bytes_per_s);

}  // namespace ringrad::bench
