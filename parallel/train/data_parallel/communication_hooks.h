// Communication hooks: ways to average a bucket of gradients other than sending all of it
// unchanged.
//
//     hook                   sends, of N float32 gradients   error                     extra memory
//     none                   4 N bytes                       rounding of the sum       none
//     compress_to(float16)   2 N                             2^-11 of each gradient    2 N, briefly
//     top_k_compression      8 ratio N, to every other rank  made up in later passes   4 N bytes
//     power_sgd              4 rank (rows + columns)         made up in later passes   4 N bytes
//
// A hook pays where sending the omitted bytes would take longer than compressing.
//
//     model.set_communication_hook(compress_to(DType::bfloat16));
//
// A hook of your own queues a task on the stream. The task leaves the average in the bucket, with
// the same bits on every rank:
//
//     model.set_communication_hook([](const GradientBucket& bucket, CommunicationStream& stream) {
//       return stream.run("clipped", [x = bucket.gradients](Communicator& comm) {
//         const NoGradGuard guard;
//         copy_(x, clamp(x, -1, 1));                 this rank's part, before it is averaged
//         comm.all_reduce(x, ReduceOp::mean);
//       });
//     });
//
// README.md says more: "Tasks of hooks".

#pragma once

#include "ringrad/parallel/train/data_parallel/power_sgd.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"
#include "ringrad/parallel/train/data_parallel/top_k_compression.h"

namespace ringrad {

/// Casts gradients to 16 bits, averages them, and casts them back. Each rank's gradients are
/// rounded once, and so is the average. Sums are in float32, and do not overflow unless their
/// average does.
///
///   |error| <= u (mean |g| + |mean g|),
///   u = 2^-11 for float16, 2^-8 for bfloat16, and 2^-25 below 2^-14 in float16
///
/// A gradient beyond 65504 becomes infinite in float16, and so does the average, on all ranks.
/// Gradients that already have 16 bits are averaged as they are.
/// Throws: DTypeError unless dtype is float16 or bfloat16
CommunicationHook compress_to(DType dtype, Where where = Where::current());

}  // namespace ringrad
