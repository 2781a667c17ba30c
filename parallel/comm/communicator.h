// Communicator: one rank's door to a group of ranks that work on one problem.
//
//     run_ranks(4, [](Communicator& comm) {
//       Tensor x = full({8}, comm.rank());
//       comm.all_reduce(x);                      // on every rank: 0 + 1 + 2 + 3 = 6
//     });
//
// Every rank must make the same collective calls, in the same order, with tensors of the same dtype
// and number of elements; the group compares the calls before any data moves. A call returns when
// the rank's result is complete and its tensors are its own again.
//
// Failure: the first error on any rank breaks the group, be it another rank's end, a call that does not match, or an
// exception in a call, such as a lack of memory. Each call that is waiting on another rank, and each later one, throws
// CollectiveError that says which rank failed, why, and what this rank was doing: the operation and its sequence
// number #k, counted from 1. Messages name ranks by their numbers in the job (rank_names.h), in every group that
// split() or shrink() makes. No call waits longer than the group's deadline. After an error the contents of the tensors
// of that call are undefined, and a new group is needed to go on. Every rank keeps a record of its latest calls
// (flight_recorder.h).
//
// Tensors of GPUs that a backend does not reach are copied to the CPU and back, in the order of the
// current stream.
//
// A communicator serves one thread at a time. How bits depend on the algorithm is told where the
// algorithms are, in parallel/plan; on all ranks they are the same.

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "parallel/comm/rank_names.h"
#include "parallel/comm/reduce_op.h"
#include "parallel/plan/cost.h"

namespace ringrad {

class Chaos;
struct CollectiveCall;
class FlightRecorder;

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  /// The numbers of the group's ranks in the job, by which messages name them.
  const RankNames& rank_names() const { return rank_names_; }
  /// The group's name, equal on all its ranks.
  const std::string& group() const { return group_; }

  /// What this rank has done lately; for the thread that makes the calls.
  const FlightRecorder& flight() const { return *flight_; }

  /// Replaces the tensor on every rank by the reduction over all ranks, in place.
  ///
  /// DTypes:  all; sum not on bool, mean on floating dtypes; float16 and bfloat16 are summed in
  ///          float32 and rounded once
  /// Throws:  ShapeError unless contiguous, DTypeError, CollectiveError; DeviceError where the
  ///          implementation cannot reach the tensor's device
  void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum,
                  Where where = Where::current());

  /// Reduces `input` over all ranks; rank r receives the r-th of world_size equal parts.
  ///
  /// Shapes:  input has world_size times the elements of output
  /// Throws:  as all_reduce
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum,
                      Where where = Where::current());

  /// Puts the inputs of all ranks one after the other, in rank order, on every rank. `input` may be
  /// this rank's own part of `output`.
  ///
  /// Shapes:  output has world_size times the elements of input
  /// Throws:  ShapeError, DTypeError unless both dtypes are equal, CollectiveError
  void all_gather(const Tensor& output, const Tensor& input, Where where = Where::current());

  /// Replaces the tensor on every rank by the root's.
  ///
  /// Throws:  ShapeError unless contiguous, ValueError unless root is a rank, CollectiveError
  void broadcast(const Tensor& tensor, int root = 0, Where where = Where::current());

  /// Replaces the root's tensor by the reduction over all ranks. The tensors of the other ranks are
  /// scratch: what they hold afterwards is undefined.
  ///
  /// DTypes:  as all_reduce
  /// Throws:  as all_reduce, and ValueError unless root is a rank
  void reduce(const Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum,
              Where where = Where::current());

  /// Sends the d-th of world_size equal parts of `input` to rank d, and puts what the ranks have
  /// sent here one after the other, in rank order.
  ///
  /// Shapes:  both hold the same number of elements, a multiple of world_size
  /// Throws:  ShapeError, DTypeError unless both dtypes are equal, ValueError if the two share
  ///          memory, CollectiveError
  void all_to_all(const Tensor& output, const Tensor& input, Where where = Where::current());

  /// Returns after every rank has called it.
  void barrier(Where where = Where::current());

  /// The same for a communicator that is made on top of this one, before it does what it was called for.
  ///
  /// Throws: CollectiveError, and the group is broken, unless all ranks meet for the same call
  void meet_for(const CollectiveCall& call, Where where);

  /// Sends to one rank; returns when the tensor has been copied, on a GPU when that is queued, which may be before it
  /// is received. Messages from one rank to another arrive in order, whatever devices they come from and go to.
  ///
  /// Async:   among threads or processes of one machine a message stays on GPUs, in the order of the current streams,
  ///          and no host waits for a GPU: from a GPU that has taken part in a collective of this group. Before that,
  ///          and where a library moves the data, it goes through the CPU's memory
  /// Throws:  ShapeError unless contiguous, ValueError unless `to` is another rank, CollectiveError
  void send(const Tensor& tensor, int to, Where where = Where::current());

  /// Receives the next message of rank `from` into the tensor, which may be on another device than what was sent; on
  /// the CPU it is there when the call returns. Throws as send, and CollectiveError if the message has another dtype
  /// or number of elements, or was on the GPU of a process that has ended.
  void recv(const Tensor& tensor, int from, Where where = Where::current());

  /// The ranks that give the same `color`, as a group of their own, in the order of `key` and, where keys
  /// are equal, of rank. Ranks of a negative color get null. All ranks call it; this group stays as it is,
  /// and either may outlive the other.
  ///
  /// Throws: CollectiveError
  std::unique_ptr<Communicator> split(int color, int key = 0, Where where = Where::current());

  /// After a failure: a group of the ranks that call it before the deadline, in the order of rank. Ranks that
  /// have ended are not waited for. All that get a group get the same one. A rank that is left out can reach nobody's
  /// memory any more. Among processes that share memory it is killed before this returns if it is inside a call, or
  /// if the group has used GPUs; otherwise its next call throws.
  ///
  /// Throws: CollectiveError unless this group is broken; on a rank that came too late; for a second call; if the
  ///         backend cannot
  std::unique_ptr<Communicator> shrink(Where where = Where::current());

  /// A tensor that collectives of this group reduce where it lies, on every rank of it; others may first be copied
  /// to such a place. `options` as for empty(); on the CPU unless they name a device.
  virtual Tensor empty_shared(const Shape& shape, const Options& options = {.device = Device()},
                              Where where = Where::current());

  /// What messages between tensors of such a device cost in this group, as its ranks have measured it together; plans
  /// are chosen by it. None if a library moves the data. All ranks call it.
  ///
  /// Throws: CollectiveError
  std::optional<CostModel> links(const Device& device = Device(), Where where = Where::current());

  /// False if only one thread may call it, the one that initialised the library below (MPI without
  /// MPI_THREAD_MULTIPLE). Otherwise any thread may, one at a time.
  virtual bool serves_all_threads() const { return true; }

  /// Breaks the group: calls on all ranks, waiting or later, throw CollectiveError that names this
  /// rank and the reason. The first abort counts; does not throw.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// The rank of this group whose failure broke it, -1 while the group is whole; rank_names() tells its number in
  /// the job.
  virtual int failed_rank() const noexcept = 0;

 protected:
  /// `group` names the group in records of failures; all its ranks must say the same.
  Communicator(int rank, int world_size, std::string group, RankNames rank_names = {});

  // What a backend implements. Arguments have been checked, and calls do not overlap.
  virtual void do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) = 0;
  virtual void do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                 Where where) = 0;
  virtual void do_all_gather(const Tensor& output, const Tensor& input, Where where) = 0;
  virtual void do_broadcast(const Tensor& tensor, int root, Where where) = 0;
  virtual void do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) = 0;
  virtual void do_all_to_all(const Tensor& output, const Tensor& input, Where where) = 0;
  virtual void do_meet(const CollectiveCall& call,
                       Where where) = 0;  ///< an empty call is a barrier
  virtual void do_send(const Tensor& tensor, int to, Where where) = 0;
  virtual void do_recv(const Tensor& tensor, int from, Where where) = 0;

  /// True if the collectives work on tensors of this device where they lie.
  virtual bool reaches(const Device& device) const { return device.is_cpu(); }

  /// A group of the given ranks of this one, in this order. Called on all ranks, with no ranks on those that
  /// get null. `name` is new on every rank of it.
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
  Chaos* const chaos_;  // null unless faults are planned
  const std::unique_ptr<FlightRecorder> flight_;
};

}  // namespace ringrad
