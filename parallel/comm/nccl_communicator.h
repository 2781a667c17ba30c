// NCCL under Communicator: collectives of tensors on GPUs by NVIDIA's library, everything else by another group
// of the same ranks.
//
//     auto comm = with_nccl(join_process_group(), Device(DeviceType::cuda, local_rank));
//     comm->all_reduce(gradients);             on the current stream, by NCCL
//     comm->all_reduce(loss_on_the_cpu);       by the processes
//
// The host's group carries NCCL's id, tensors of the CPU, messages (below), barriers, and before each call of
// NCCL the comparison of what the ranks ask for: NCCL itself would hang, or return wrong numbers, if they
// differed. It also tells all ranks of a failure, by whoever sees it first (nccl_session.h).
//
// Results are in the order of the current stream, as with any operator; the host waits for no GPU. If NCCL fails
// later, or a rank's GPU does not come within the deadline, the next call that waits for this GPU throws
// CollectiveError instead of handing out what is not there, and so do all later collectives.
//
// Numbers are NCCL's. All ranks get the same bits from all_reduce, but neither their order of sums nor the
// rounding is one of ours: it depends on size, topology and version; 16-bit floats are rounded at every hop, mean
// multiplies by 1 / world_size before it adds, and min and max prefer a number to a NaN. bool travels as uint8.
//
// send() and recv() go through the CPU's memory: NCCL's send ends when the message is received, so two ranks
// that first send and then receive would wait for each other, which this interface promises they do not.
//
// Calls of NCCL are numbered by themselves in messages, and those of the host's group as that does.
//
// Not captured in graphs: the host takes part in every call.

#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"

namespace ringrad {

struct NcclOptions {
  /// The longest that NCCL may take to begin, and a rank's GPU to wait for the others'; the host's group has
  /// its own.
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  /// The library's file; "" for the one that RINGRAD_NCCL names, or libnccl.so.2.
  std::string library;
};

/// Called on all ranks of `host`, each with its GPU. split() and shrink() of the result have NCCL, too.
///
/// Throws: CollectiveError unless all ranks have the same version of NCCL, 2.14 or later, and it is ready before
///         the deadline; DeviceError unless `gpu` is a GPU that exists, and no other rank's, which NCCL refuses
///         (from 2.30 on NCCL_MULTI_RANK_GPU_ENABLE=1 allows it); ValueError unless deadline > 0. The group is
///         broken then.
std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> host, Device gpu,
                                        const NcclOptions& options = {},
                                        Where where = Where::current());

}  // namespace ringrad
