// NcclSession: one rank's NCCL communicator, and the thread that watches over it.
//
//     rank's thread      queue(#1)   queue(#2)                          queue(#3): throws
//     its GPU            [reached #1 | NCCL | done] [reached #2 | NCCL ..............
//     watcher              . . . . . . . . . . . . . . . . . . . . x  note, host.abort(), ncclCommAbort()
//
// NCCL's kernels wait for those of other ranks, for ever if one does not come. So while calls are unfinished a
// thread looks every few milliseconds at what NCCL says, whether the host's group is whole, and how long the
// oldest call has been at work since this rank's GPU came to it. On a failure it leaves a note for whoever waits
// for the GPU next (core/device_watch.h), breaks the host's group, which tells the other ranks, and aborts NCCL,
// in this order: when kernels end without a result, it is known already.
//
// ncclCommAbort may take long, and has been seen to hang. It is called by the watcher alone; a rank that ends
// waits for it a second, then leaves it behind.
//
// NCCL's functions may themselves go on in the background (ncclInProgress); queue() returns once the work is on
// the stream.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/device.h"
#include "parallel/comm/collective_call.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/nccl_library.h"

namespace ringrad {

/// How often ranks of this process have slept because NCCL was in progress.
std::uint64_t num_nccl_sleeps();

class NcclSession {
 public:
  /// NCCL puts most calls on the stream within some ten microseconds, and a thread that sleeps wakes later: so a
  /// rank looks so often before it sleeps, and leaves its processor to others in between.
  static constexpr int kLooksBeforeSleep = 1000;

  /// Called on all ranks of `host`, each with a GPU of its own and the same id.
  ///
  /// Throws: CollectiveError unless NCCL is ready before the deadline
  NcclSession(const nccl::Library& library, const nccl::UniqueId& id, Communicator& host,
              Device gpu, std::chrono::nanoseconds deadline, Where where);

  /// Waits until what was queued is done, at most for the deadline. After a failure, a second for NCCL to end.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  using Body = std::function<nccl::Result(nccl::Comm comm, cudaStream_t stream)>;

  /// Queues what `body` calls on the current stream.
  ///
  /// Throws: CollectiveError if the group is broken, or breaks now
  void queue(const Operation& operation, const Body& body);

  /// The host's group is broken: ends what is queued. Thread-safe.
  void abort() noexcept;

  /// Returns when NCCL has been aborted, or after a second. That calls have failed is known now: nobody is told
  /// of it any more. REQUIRES: the host's group is broken
  void wait_for_abort() noexcept;

 private:
  struct State;
  void leave_watcher() noexcept;

  const std::shared_ptr<State> state_;  // the watcher has it, too: it may outlive the session
  std::thread watcher_;
};

}  // namespace ringrad
