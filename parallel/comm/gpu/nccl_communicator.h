// NCCL under Communicator: NVIDIA's library runs the collectives on GPU tensors, and another group
// of the same ranks does everything else.
//
//     auto comm = with_nccl(join_process_group(), Device(DeviceType::cuda, local_rank));
//     comm->all_reduce(gradients);             on the current stream, by NCCL
//     comm->all_reduce(loss_on_the_cpu);       by the processes
//
// The host's group carries NCCL's id, CPU tensors, messages (below) and barriers. Before each call
// of NCCL it compares the ranks' calls; if they differed, NCCL would hang or return wrong numbers.
// It also spreads a failure, from the rank that sees it first, to all ranks (nccl_session.h).
//
// Results are in the order of the current stream, as with any operator; the host waits for no GPU.
// If NCCL fails later, or a rank's GPU does not arrive within the deadline, the next call that
// waits for this GPU throws CollectiveError, and so do all later collectives.
//
// Rounding is NCCL's. All ranks get the same bits from all_reduce, but the order of sums and the
// rounding depend on size, topology and version and match no plan. 16-bit floats are rounded at
// every hop, mean multiplies by 1 / world_size before it adds, and min and max prefer a number to a
// NaN. bool travels as uint8.
//
// send() and recv() go through the CPU's memory. NCCL's send ends when the message is received, so
// two ranks that first send and then receive would deadlock, which this interface excludes.
//
// In messages, NCCL's calls have their own numbers, and the host's group numbers its own calls.
// Calls cannot be captured in graphs, since the host takes part in each.

#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

struct NcclOptions {
  /// The longest that NCCL may take to start, and that a rank's GPU may wait for the others. The
  /// host's group has its own deadline.
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  /// The library's file; "" for the one that RINGRAD_NCCL names, or libnccl.so.2.
  std::string library;
};

/// All ranks of `host` must call it, each with its GPU. split() and shrink() of the result also use
/// NCCL.
///
/// Throws: CollectiveError unless all ranks have the same version of NCCL, 2.14 or later, and NCCL
///         is ready before the deadline; DeviceError unless `gpu` exists and is no other rank's,
///         which NCCL refuses (from 2.30 on NCCL_MULTI_RANK_GPU_ENABLE=1 allows it); ValueError
///         unless deadline > 0. After an exception the group is broken.
std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> host, Device gpu,
                                        const NcclOptions& options = {},
                                        Where where = Where::current());

}  // namespace ringrad
