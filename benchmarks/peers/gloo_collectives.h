#pragma once

// Peer: Gloo's all-reduce between processes of one host over TCP on the loopback device, float32
// sum in place. The times of Gloo's algorithms differ by more than a factor of ten here, so each is
// measured and the fastest counts:
//
//   ring (what torch.distributed uses), bcube, and the older ring_chunked and halving_doubling in
//   Gloo's synchronous mode (_sync), which polls instead of using a thread. In that mode both
//   ranks write before they read, so buffers that overflow the sockets' wait for each other until
//   a timeout: 64 MiB and more is left out.

#include <string>
#include <vector>

#include "ringrad/benchmarks/collective_rank.h"

namespace ringrad::bench {

std::vector<std::string> gloo_algorithms();

/// False where the algorithm would wait for itself (see above).
bool gloo_has(const CollectiveCase& one);

/// One rank's part of a case; ranks meet in the case's folder.
/// Throws: std::runtime_error; as measure
void run_gloo(SharedCase& shared, int rank);

}  // namespace ringrad::bench
