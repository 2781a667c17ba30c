// Communication hooks: other ways to average a bucket of gradients than to send all of it as it is.
//
//     hook                   sends, of N float32 gradients      error                        extra memory
//     none                   4 N bytes                          rounding of the sum          none
//     compress_to(float16)   2 N                                2^-11 of each gradient       2 N bytes, for a while
//     top_k_compression      8 ratio N, to every other rank     made good in later passes    4 N bytes
//     power_sgd              4 rank (rows + columns)            made good in later passes    4 N bytes
//
// Sending fewer bytes pays where the link is slower than the work of leaving them out.
//
//     model.set_communication_hook(compress_to(DType::bfloat16));
//
// A hook of the user's own gives the lane a task that leaves the average in the bucket, the same bits on every rank:
//
//     model.set_communication_hook([](const GradientBucket& bucket, CommunicationLane& lane) {
//       return lane.run("clipped", [x = bucket.gradients](Communicator& comm) {
//         const NoGrad guard;
//         copy_(x, clamp(x, -1, 1));                 this rank's part, before it is averaged
//         comm.all_reduce(x, ReduceOp::mean);
//       });
//     });
//
// A task may run on another thread, beside backward: it must not record, and what it shares with the rest of the
// program it must lock. Tasks of one lane run one after the other. All ranks set the same hook, between passes.
//
// What a hook or its task throws ends that rank's backward pass. If the ranks' tasks all throw, before they have called
// a collective, the model can go on; if only some do, the others get CollectiveError when these leave the group.

#pragma once

#include "parallel/train/power_sgd.h"
#include "parallel/train/reducer.h"
#include "parallel/train/top_k_compression.h"

namespace ringrad {

/// Casts gradients to 16 bits, averages them, and casts them back. Each rank's are rounded once and so is the average:
/// sums are in float32, and do not overflow where their average does not.
///
///   |error| <= u (mean |g| + |mean g|),     u = 2^-11 for float16, 2^-8 for bfloat16, and 2^-25 below 2^-14 in float16
///
/// A gradient beyond 65504 becomes infinite in float16, and so does the average, on all ranks. Gradients of 16 bits are
/// averaged as they are.
/// Throws: DTypeError unless dtype is float16 or bfloat16
CommunicationHook compress_to(DType dtype, Where where = Where::current());

}  // namespace ringrad
