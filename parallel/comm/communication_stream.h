// CommunicationStream: runs collectives of a group while the thread that started them computes.
//
//     compute   [ layer 3 ][ layer 2 ][ layer 1 ]
//     stream             [ gradients 3 ][ gradients 2 ] ...
//
//     CommunicationStream stream(comm, device, true);
//     Work work = stream.run("bucket 0", [=](Communicator& comm) { comm.all_reduce(gradients); });
//     ...
//     work.wait();
//
// The stream is a progress thread on the CPU and a communication stream on a GPU. Tasks run one
// after the other, and each begins after all work that the caller did or queued before it. All
// ranks must give their streams the same work in the same order. The stream owns the communicator
// from run() until the last Work was waited for; meanwhile a call by the caller throws, as from any
// second thread. Streams of one communicator on one device share one queue, but each measures its
// own times. So two models in one backward pass are reduced in the same order on all ranks.
//
// After a task fails, no other task begins until a thread has waited for the failed one. Until
// then, queued and new tasks fail with the same exception, because their collectives would meet
// other collectives on ranks where no task failed.
//
// A stream without overlap runs each task at once, on the caller's thread and stream. On the CPU
// this is faster where ranks have no spare cores, since overlapped communication takes processor
// time from the computation.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringrad/core/base/device.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/work.h"

namespace ringrad {

class CommunicationStream {
 public:
  using Task = std::function<void(Communicator& comm)>;

  /// For tensors of `device`.
  ///
  /// REQUIRES: comm outlives the stream
  CommunicationStream(Communicator& comm, Device device, bool overlaps);

  /// Waits until its work is done; on a GPU the current stream waits. If an exception is in flight
  /// and work is not done, the group is aborted first, since the stream's thread would wait for
  /// ranks that wait for this one.
  ~CommunicationStream();

  /// Runs the task. Work::wait() rethrows the task's exception. Where the stream works on the
  /// caller's thread (without overlap, and on GPUs), run() throws it at once. The task's calls have
  /// the caller's purpose (common/call_purpose.h). The name is for traces.
  Work run(std::string name, Task task, Where where = Where::current());

  Communicator& comm() const { return comm_; }
  bool overlaps() const { return implementation_ != nullptr; }

  /// Seconds that the stream worked, and that threads waited in Work::wait(), since the last call.
  /// On GPUs `work_s` comes from the device's clock (the simulator's, if simulated), except with
  /// Overlap::never, where it is host time. Blocks until queued work is done.
  struct Times {
    double work_s = 0;
    double waited_s = 0;
  };
  Times take_times();

  class Implementation;
  class Started;

 private:
  bool is_at_work() const noexcept;

  Communicator& comm_;
  const Unwinding unwinding_;
  const std::shared_ptr<Times> times_ = std::make_shared<Times>();
  const std::shared_ptr<Implementation> implementation_;
  std::shared_ptr<const Started> latest_;  // null before the first
  const OwnProcess in_own_process_;
};

}  // namespace ringrad
