// Ranks as processes of one machine, each with its own address space and crashing on its own.
//
//     ringrun -n 4 ./train
//
//     int main() {
//       const auto comm = join_process_group();     the rank's place is in its environment
//       const Tensor gradients = comm->empty_shared({1'000'000});
//       comm->all_reduce(gradients);
//     }
//
// Collectives run as among threads (shared_communicator.h). A tensor from empty_shared() lies in
// memory that the other ranks see, and is reduced in place; any other tensor is copied there and
// back.
//
// When a process ends without reporting it (killed, crashed or exited, even if it was done), every
// rank that has waited for some 40 milliseconds notices and names it. A stopped process is reported
// as late at the deadline. While ranks join, only join_timeout detects that a process has ended or
// was stopped. A rank that forks stays in the group when the child destroys its copy of the
// communicator.

#pragma once

#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/host/shared_communicator.h"
#include "ringrad/parallel/comm/memory/shared_heap.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

struct ProcessGroupOptions : GroupOptions {
  /// Address space for this rank's shared tensors, in bytes; memory is allocated on first use.
  std::size_t heap_bytes = kDefaultHeapBytes;
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
};

/// The communicator of this process in the job that its environment describes. Every rank must call
/// it equally often.
///
/// Throws: ValueError for an invalid environment; CollectiveError if the ranks do not find each
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
