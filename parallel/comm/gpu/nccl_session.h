// NcclSession: one rank's NCCL communicator, and the thread that watches over it.
//
//     rank's thread      queue(#1)   queue(#2)                          queue(#3): throws
//     its GPU            [reached #1 | NCCL | done] [reached #2 | NCCL ..............
//     watcher              . . . . . . . . . . . . . . . . . x  note, host.abort(), ncclCommAbort()
//
// NCCL's kernels wait for those of other ranks, forever if one does not arrive. So while calls are
// unfinished, a thread checks every few milliseconds NCCL's status, whether the host's group is
// whole, and how long the oldest call has run since this rank's GPU reached it. On a failure it
// leaves a note for the next thread that waits for the GPU (rank_watch.h), breaks the
// host's group, which tells the other ranks, and then aborts NCCL. In this order the failure is
// known before kernels end without a result.
//
// ncclCommAbort may take long, and has been seen to hang. Only the watcher calls it; a rank that
// ends waits a second for it, then abandons it.
//
// NCCL's functions may continue in the background (ncclInProgress); queue() returns once the work
// is on the stream.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "ringrad/core/base/device.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/gpu/nccl_library.h"

namespace ringrad {

/// How often ranks of this process have slept because NCCL was in progress.
std::uint64_t num_nccl_sleeps();

class NcclSession {
 public:
  /// How often a rank polls before it sleeps, yielding its processor in between. NCCL puts most
  /// calls on the stream within some ten microseconds, and a sleeping thread wakes later than that.
  static constexpr int kLooksBeforeSleep = 1000;

  /// Called on all ranks of `host`, each with a GPU of its own and the same id.
  ///
  /// Throws: CollectiveError unless NCCL is ready before the deadline
  NcclSession(const nccl::Library& library, const nccl::UniqueId& id, Communicator& host,
              Device gpu, std::chrono::nanoseconds deadline, Where where);

  /// Waits until the queued work is done, at most for the deadline. After a failure, waits a second
  /// for NCCL to end.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  using Body = std::function<nccl::Result(nccl::Comm comm, cudaStream_t stream)>;

  /// Queues what `body` calls on the current stream.
  ///
  /// Throws: CollectiveError if the group is broken, or breaks now
  void queue(const Operation& operation, const Body& body);

  /// For when the host's group is broken: ends the queued work. Thread-safe.
  void abort() noexcept;

  /// Returns when NCCL has been aborted, or after a second. From then on, failed calls are no
  /// longer reported. REQUIRES: the host's group is broken
  void wait_for_abort() noexcept;

 private:
  struct State;
  void leave_watcher() noexcept;

  const std::shared_ptr<State> state_;  // the watcher has it, too: it may outlive the session
  std::thread watcher_;
};

}  // namespace ringrad
