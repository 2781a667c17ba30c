// All-reduces in one kernel per rank: the kernels of all ranks run at the same time, write data for
// other ranks into a mailbox, and wait for each other by flags.
//
//                     rank 0                      rank 1
//     one_shot        input -> own mailbox        input -> own mailbox
//                     raise 1's flag, await own   raise 0's flag, await own
//                     sum all mailboxes           sum all mailboxes            canonical order
//
//     two_shot        as above, but rank r sums part r only, into its mailbox; flags again; then
//                     each copies every part from the rank that has it          canonical order
//
//     ring            part by part: add own to what the previous rank has left here, leave it
//                     with the next one; n - 1 times sums, n - 1 times results  ring order
//
// Block b of a rank works on slice b of the tensor and waits only for block b of other ranks. A
// flag is a number that only grows: call #k raises it to k * kPhases + phase. There are two
// mailboxes, for even and odd calls: a rank in call k + 1 has seen all others there, so no
// rank still reads the mail of call k.
//
// The launching code must ensure that the blocks of all ranks are on their GPUs at the same time
// (kernel_all_reduce.h). Otherwise, or if a rank does not arrive, kernels give up at the deadline
// or when the abort word is raised, leave a note (rank_watch.h), and end. The result is
// then undefined.
//
// README.md says more: "Order of mail and flags".

#pragma once

#include <cstddef>
#include <cstdint>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/common/reduce_op.h"
#include "ringrad/parallel/comm/gpu/rank_watch.h"
#include "ringrad/parallel/comm/group_options.h"

namespace ringrad::cuda {

/// The most ranks, and blocks of a rank.
inline constexpr int kMaxKernelRanks = 16;
inline constexpr int kMaxKernelBlocks = 32;
/// The most threads of a block, which real GPUs get.
inline constexpr int kMaxKernelThreads = 512;
/// More phases than any algorithm has, so that a call's flags are numbers below those of the next
/// call.
inline constexpr std::uint64_t kPhases = 2 * kMaxKernelRanks;

/// Lies in memory of a rank's GPU that all other ranks reach. A mailbox of zeros is ready for use.
struct Mailbox {
  std::uint64_t flags[kMaxKernelBlocks][kMaxKernelRanks];  ///< raised by each rank for each block
  // Two halves of mailbox_half() bytes follow, aligned to 256.
};

/// Bytes of a half of a mailbox, and of the whole mailbox, for tensors of at most `capacity` bytes.
/// Even and odd calls use one half each. ring adds 16-bit floats in float32, so it has room for
/// half as many of them.
constexpr std::size_t mailbox_half(std::size_t capacity) {
  return (2 * (capacity + 16 * sizeof(double)) + 255) / 256 * 256;
}
constexpr std::size_t mailbox_bytes(std::size_t capacity) {
  return sizeof(Mailbox) + 2 * mailbox_half(capacity);
}

struct KernelCall {
  int rank, world_size;
  std::uint64_t number;  ///< of this call, 1 for the group's first
  Mailbox* mailboxes[kMaxKernelRanks];
  int names[kMaxKernelRanks];  ///< the ranks' numbers in the job, for messages
  std::size_t capacity;        ///< of the mailboxes
  std::uint64_t* abort;        ///< pinned; not zero: give up, or has given up
  std::uint64_t deadline_ns;   ///< give up after waiting so long
  LateNote* note;
  LateRank late;  ///< the note's contents, except for the peer
};

/// Bytes of a mailbox's half that an algorithm needs; ring sums 16-bit floats in float32.
std::size_t bytes_in_mailbox(DeviceAlgorithm algorithm, DType dtype, std::int64_t count);

/// Threads of a block. On a simulated GPU each waiting thread has a stack, and ThreadSanitizer
/// counts it as a thread. A process can have some thousands of these, for all ranks together.
int kernel_threads();

/// The most blocks of these kernels that are on one GPU at the same time. Also loads the kernels,
/// since loading a kernel may never finish while another one spins.
int max_resident_blocks(Device device, Where where);

/// data[i] = op over all ranks of data[i], / world_size for mean; on `stream`, with `blocks` blocks
/// on every rank. `is_alone` says that no other rank has this GPU; the driver then ensures that all
/// blocks run at once.
///
/// REQUIRES: bytes_in_mailbox <= mailbox_half(capacity); dtype is not bool; algorithm is one of the
///           kernels
/// Throws:   CudaError
void launch_all_reduce(const Stream& stream, DeviceAlgorithm algorithm, const KernelCall& call,
                       DType dtype, ReduceOp op, std::byte* data, std::int64_t count, int blocks,
                       bool is_alone, Where where);

}  // namespace ringrad::cuda
