// Ranks as processes of one machine: each with an address space, and a crash, of its own.
//
//     ringrun -n 4 ./train
//
//     int main() {
//       const auto comm = join_process_group();     the rank's place is in its environment
//       const Tensor gradients = comm->empty_shared({1'000'000});
//       comm->all_reduce(gradients);
//     }
//
// Collectives are run as among threads (shared_communicator.h). A tensor that comes from empty_shared() lies
// where the other ranks see it, and is reduced in place; any other one is copied there and back.
//
// A process that ends without a word (killed, crashed, exited, though it may be done) is noticed by whoever waits
// for a few milliseconds, and named; one that was stopped is late, and the deadline says so. While ranks join,
// only join_timeout finds out.

#pragma once

#include <memory>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/rank_environment.h"
#include "parallel/comm/shared_communicator.h"
#include "parallel/comm/shared_heap.h"
#include "parallel/comm/store.h"

namespace ringrad {

struct ProcessGroupOptions : GroupOptions {
  /// Addresses for this rank's shared tensors; memory is taken when it is used.
  std::size_t heap_bytes = kDefaultHeapBytes;
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
};

/// The communicator of this process in the job that its environment tells of. Every rank must call it, and
/// equally often.
///
/// Throws: ValueError for an environment that makes no sense; CollectiveError if the ranks do not find each
///         other in time, or are not on one machine
std::unique_ptr<Communicator> join_process_group(const ProcessGroupOptions& options = {},
                                                 Where where = Where::current());

/// The same for ranks that share a store.
///
/// REQUIRES: no group of this store has had the name before
std::unique_ptr<Communicator> join_process_group(Store& store, const std::string& name, int rank,
                                                 int world_size,
                                                 const ProcessGroupOptions& options = {},
                                                 Where where = Where::current());

}  // namespace ringrad
