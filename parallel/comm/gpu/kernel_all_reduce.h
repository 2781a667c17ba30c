// KernelAllReduce: one rank's use of the kernels of all_reduce_kernels.h: checks whether they can
// run, launches them, and ends them.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/device_links.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class KernelAllReduce {
 public:
  /// Kernels that give up say so in `note`.
  ///
  /// REQUIRES: all ranks make it after the same call; it is destroyed after its kernels have ended
  KernelAllReduce(RankSession& session, DeviceLinks& links, Device device, LateNote* note,
                  Where where);
  KernelAllReduce(const KernelAllReduce&) = delete;
  KernelAllReduce& operator=(const KernelAllReduce&) = delete;

  /// Queues the all_reduce that `operation` begins on the current stream, if kernels can do it;
  /// false on all ranks if not.
  ///
  /// Throws: CollectiveError, CudaError
  bool try_run(Operation& operation, std::byte* data);

  /// Ends the kernels of the ranks of this process, if they wait. Thread-safe.
  void abort() noexcept;

  /// True once a kernel of this rank has ended without its result.
  bool gave_up();

 private:
  DeviceAlgorithm algorithm_for(const CollectiveCall& call) const;
  bool all_can_run_at_once(const Stream& stream) const;
  // On the stream of its own, after what is queued on `current`, which does not wait for it yet.
  void launch(DeviceAlgorithm algorithm, const Operation& operation, std::byte* data,
              const Stream& current);

  RankSession& session_;
  DeviceLinks& links_;
  const Device device_;
  const Stream stream_;  // of its own: ranks that share a GPU must not wait for each other's
  LateNote* const note_;
  bool is_possible_;      // on all ranks or on none
  bool is_alone_ = true;  // on its GPU
  int num_blocks_ = 0;    // the most for each rank, the same on all
  std::uint64_t number_;  // of the latest call
};

/// How many kernels this process has launched for its ranks: tells an all_reduce by kernels from
/// one by the plan.
std::uint64_t num_kernel_all_reduces();

}  // namespace ringrad
