// Communicator: one rank's handle to a group of ranks that work on one problem.
//
//     run_ranks(4, [](Communicator& comm) {
//       Tensor x = full({8}, comm.rank());
//       comm.all_reduce(x);                      // on every rank: 0 + 1 + 2 + 3 = 6
//     });
//
// Every rank must make the same collective calls, in the same order, with tensors of the same dtype
// and number of elements; the group compares the calls before any data moves. A call returns when
// the rank's result is complete and no other rank uses its tensors any more.
//
// Failure: the first error on any rank breaks the group: a rank exits, calls do not match, or a
// call throws, for example for lack of memory. Every call that waits for another rank, and every
// later call, then throws CollectiveError. The message says which rank failed, why, and what this
// rank was doing: the operation and its sequence number #k, counted from 1. Messages name ranks by
// their numbers in the job (rank_names.h), also in groups made by split() or shrink(). No call
// waits longer than the group's deadline. After an error the tensors of that call have undefined
// contents, and continuing takes a new group. Every rank records its latest calls
// (flight_recorder.h).
//
// Tensors on GPUs that a backend cannot reach are copied to the CPU and back, in the order of the
// current stream.
//
// A communicator serves one thread at a time, and no forked child. Results have the same bits on
// all ranks; parallel/plan documents how they depend on the algorithm.

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/rank_names.h"
#include "ringrad/parallel/comm/common/reduce_op.h"
#include "ringrad/parallel/plan/predict/cost.h"

namespace ringrad {

class FaultInjection;
struct CollectiveCall;
class FlightRecorder;

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  /// The job-wide numbers of the group's ranks, which messages use.
  const RankNames& rank_names() const { return rank_names_; }
  /// The group's name, equal on all its ranks.
  const std::string& group() const { return group_; }

  /// The record of this rank's latest calls. Only the thread that makes the calls may read it.
  const FlightRecorder& flight() const { return *flight_; }

  /// Replaces the tensor on every rank by the reduction over all ranks, in place.
  ///
  /// DTypes:  all; sum not on bool, mean on floating dtypes; float16 and bfloat16 are summed in
  ///          float32 and rounded once
  /// Throws:  AutogradError if the tensor requires a gradient while operations are recorded, as
  ///          does every call below for what it writes to; ShapeError unless contiguous,
  ///          DTypeError, CollectiveError; DeviceError where the implementation cannot reach the
  ///          tensor's device
  void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());

  /// Reduces `input` over all ranks; rank r receives the r-th of world_size equal parts. `output`
  /// may be this rank's own part of `input`.
  ///
  /// Shapes:  input has world_size times the elements of output
  /// Throws:  as all_reduce, and ValueError if the two share memory in another way
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum,
                      Where where = Where::current());

  /// Concatenates the inputs of all ranks, in rank order, on every rank. `input` may be this rank's
  /// own part of `output`.
  ///
  /// Shapes:  output has world_size times the elements of input
  /// Throws:  ShapeError, DTypeError unless both dtypes are equal, ValueError if the two share
  ///          memory in another way, CollectiveError
  void all_gather(const Tensor& output, const Tensor& input, Where where = Where::current());

  /// Replaces the tensor on every rank by the root's.
  ///
  /// Throws:  ShapeError unless contiguous, ValueError unless root is a rank, CollectiveError
  void broadcast(const Tensor& tensor, int root = 0, Where where = Where::current());

  /// Replaces the root's tensor by the reduction over all ranks. The other ranks' tensors serve as
  /// scratch memory, and their contents are undefined afterwards.
  ///
  /// DTypes:  as all_reduce
  /// Throws:  as all_reduce, and ValueError unless root is a rank
  void reduce(const Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum,
              Where where = Where::current());

  /// Sends the d-th of world_size equal parts of `input` to rank d, and concatenates the parts that
  /// this rank receives, in rank order.
  ///
  /// Shapes:  both hold the same number of elements, a multiple of world_size
  /// Throws:  ShapeError, DTypeError unless both dtypes are equal, ValueError if the two share
  ///          memory, CollectiveError
  void all_to_all(const Tensor& output, const Tensor& input, Where where = Where::current());

  /// Returns after every rank has called it.
  void barrier(Where where = Where::current());

  /// A barrier that also compares `call`. A communicator that is built on top of this one calls
  /// meet_for() before it runs `call`.
  ///
  /// Throws: CollectiveError, and breaks the group, unless all ranks meet for the same call
  void meet_for(const CollectiveCall& call, Where where);
  /// Runs a collective whose arguments have been checked. Those in place have one tensor, which is
  /// `output` and `input`. For a communicator that is built on top of this one, too.
  ///
  /// Throws: CollectiveError; DeviceError as all_reduce
  void run(const CollectiveCall& call, const Tensor& output, const Tensor& input, Where where);

  /// Sends to one rank. Returns when the tensor has been copied, or on a GPU when the copy is
  /// queued; this may be before the message is received. Messages from one rank to another arrive
  /// in order, whatever their devices.
  ///
  /// Async:   among threads or processes of one machine, a message from a GPU that has taken part
  ///          in a collective of this group stays on GPUs, in the order of the current streams, and
  ///          no host waits for a GPU. Before such a collective, and where a library moves the
  ///          data, the message goes through the CPU's memory
  /// Throws:  ShapeError unless contiguous, ValueError unless `to` is another rank, CollectiveError
  void send(const Tensor& tensor, int to, Where where = Where::current());

  /// Receives the next message of rank `from` into the tensor, which may be on another device than
  /// the sent tensor. On the CPU the data has arrived when the call returns. Throws as send, and
  /// CollectiveError if the message has another dtype or number of elements, or was on the GPU of a
  /// process that has ended.
  void recv(const Tensor& tensor, int from, Where where = Where::current());

  /// A new group of the ranks that pass the same `color`, ordered by `key` and, where keys are
  /// equal, by rank. Ranks with a negative color get null. All ranks must call it. This group is
  /// unchanged, and either group may outlive the other.
  ///
  /// Throws: CollectiveError
  std::unique_ptr<Communicator> split(int color, int key = 0, Where where = Where::current());

  /// After a failure: a group of the ranks that call it before the deadline, in rank order. It does
  /// not wait for ranks that have ended. All ranks that get a group get the same one. An excluded
  /// rank can no longer reach the memory of the others. Among processes that share memory, an
  /// excluded rank is killed before this returns if it is inside a call or if the group has used
  /// GPUs; otherwise its next call throws.
  ///
  /// Throws: CollectiveError unless this group is broken; on a rank that called too late; on a
  ///         second call; if the backend cannot shrink
  std::unique_ptr<Communicator> shrink(Where where = Where::current());

  /// A tensor in memory that the other ranks can read, which collectives reduce in place. Tensors
  /// elsewhere may first be copied to such memory. `options` as for empty(), with the CPU as the
  /// default device.
  virtual Tensor empty_shared(const Shape& shape, const Options& options = {.device = Device()},
                              Where where = Where::current());

  /// The cost of messages between tensors on `device`, which the group's ranks measure together and
  /// by which the group chooses plans. None if a library moves the data. All ranks must call it.
  ///
  /// Throws: CollectiveError
  std::optional<CostModel> links(const Device& device = Device(), Where where = Where::current());

  /// False if only the thread that initialised the underlying library may make calls (MPI without
  /// MPI_THREAD_MULTIPLE). Otherwise any thread may, one at a time.
  virtual bool serves_all_threads() const { return true; }

  /// Breaks the group: waiting and later calls on all ranks throw a CollectiveError that names this
  /// rank and the reason. Only the first abort has an effect, and none in a forked child.
  void abort(const std::string& reason) noexcept;

  /// The rank of this group whose failure broke it, or -1 while the group is whole. rank_names()
  /// gives that rank's number in the job.
  virtual int failed_rank() const noexcept = 0;

 protected:
  /// `group` names the group in failure records; all its ranks must pass the same name.
  Communicator(int rank, int world_size, std::string group, RankNames rank_names = {});

  virtual void do_abort(const std::string& reason) noexcept = 0;

  // A backend implements these. Arguments have been checked, and calls do not overlap.
  /// One call of a collective. Those in place (is_in_place) get one tensor twice.
  virtual void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                             Where where) = 0;
  virtual void do_meet(const CollectiveCall& call,
                       Where where) = 0;  ///< an empty call is a barrier
  virtual void do_send(const Tensor& tensor, int to, Where where) = 0;
  virtual void do_recv(const Tensor& tensor, int from, Where where) = 0;

  /// True if the collectives work in place on tensors of this device.
  virtual bool reaches(const Device& device) const { return device.is_cpu(); }

  /// A group of the given ranks of this group, in the given order. Called on all ranks; `ranks` is
  /// empty on those that get null. `name` is new on every rank of the group.
  virtual std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks,
                                                 const std::string& name, Where where) = 0;
  virtual std::unique_ptr<Communicator> do_shrink(Where where);
  virtual std::optional<CostModel> do_links(const Device& /*device*/, Where /*where*/) {
    return {};
  }

 private:
  class OneCall;
  template <class Body>
  void perform(const CollectiveCall& call, Where where, Body body);
  template <class Body>
  void record(const CollectiveCall& call, Where where, Body body);

  const int rank_;
  const int world_size_;
  const std::string group_;
  const RankNames rank_names_;
  std::atomic<bool> in_call_{false};
  int num_splits_ = 0;
  bool has_shrunk_ = false;
  const OwnProcess in_own_process_;
  FaultInjection* const fault_injection_;  // null unless faults are planned
  const std::unique_ptr<FlightRecorder> flight_;
};

}  // namespace ringrad
