// CommunicationLane: where collectives of a group go on while the thread that asked for them computes.
//
//     compute   [ layer 3 ][ layer 2 ][ layer 1 ]          CommunicationLane lane(comm, device, true);
//     lane             [ gradients 3 ][ gradients 2 ] ...  Work work = lane.run("bucket 0",
//                                                            [=](Communicator& comm) {
//                                                              comm.all_reduce(gradients); });
//                                                          ...
//                                                          work.wait();
//
// On the CPU the lane is a thread, on a GPU a stream: what it is given begins after all that the caller has done or
// queued before, one after the other. All ranks must give their lanes the same work in the same order. The lane has the
// communicator to itself from run() until the last Work was waited for; a call by the caller meanwhile throws, as it
// would from any second thread. Lanes of one communicator on one device are the same lane, each with times of its own:
// two models that one backward pass goes through are reduced in one order on all ranks.
//
// After a task that failed no other is begun until somebody has waited for it, and those between them fail with it:
// their collectives would meet others of the ranks where nothing failed.
//
// A lane without overlap does everything at once, on the caller's thread and stream. On the CPU that is the faster
// one where ranks have no cores to spare: communication then takes its time from the computation beside it.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/work.h"

namespace ringrad {

class CommunicationLane {
 public:
  using Task = std::function<void(Communicator& comm)>;

  /// For tensors of `device`.
  ///
  /// REQUIRES: comm outlives it
  CommunicationLane(Communicator& comm, Device device, bool overlaps);

  /// Waits until its work is done, on a GPU by the current stream. If an exception is under way and work is not done,
  /// the group is aborted first: its thread would wait for ranks that wait for this one.
  ~CommunicationLane();

  /// The task may throw; whoever waits gets that, or the caller at once, where the lane works on its thread: without
  /// overlap, and on GPUs. The name is for traces.
  Work run(std::string name, Task task, Where where = Where::current());

  Communicator& comm() const { return comm_; }
  bool overlaps() const { return implementation_ != nullptr; }

  /// Seconds that the lane has worked, and that somebody waited in Work::wait(), since the last call. On a GPU by its
  /// clock, the simulated one's on a simulated; waits until it has done its work.
  struct Times {
    double work_s = 0;
    double waited_s = 0;
  };
  Times take_times();

  class Implementation;

 private:
  bool is_at_work() const noexcept;

  Communicator& comm_;
  const int exceptions_before_;
  const std::shared_ptr<Times> times_ = std::make_shared<Times>();
  const std::shared_ptr<Implementation> implementation_;
  Work latest_;
};

}  // namespace ringrad
