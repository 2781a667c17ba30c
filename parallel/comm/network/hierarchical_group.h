// Ranks on several hosts that combine their data within each host first. Ranks of a host use shared
// memory, or peer copies between GPUs; one rank per host, its leader, uses the network.
//
//     host a   rank 0 <-- 1  reduce   rank 0 <--> rank 2  all_reduce   rank 0 --> 1  broadcast
//     host b   rank 2 <-- 3  inside     the leaders alone              rank 2 --> 3  inside
//
// The network carries the bytes of one rank per host instead of all ranks:
//
//     all_reduce, reduce, reduce_scatter, broadcast, all_gather, barrier   by host
//     all_to_all, send, recv                  between any two ranks, on the network
//
// Sums are made host by host, then over the hosts in the order of their first ranks. 16-bit floats
// travel in float32 and are rounded once. All ranks hold the same bits, but not those of
// `canonical` order. A reduce_scatter costs as much as an all_reduce.
//
// Failures are detected and named as over any network (failure_board.h), whichever of the three
// groups sees them.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

/// How much longer the network's deadline should be than that of the group on top of it, which
/// should detect a failure first.
inline constexpr std::chrono::seconds kNetworkPatience{2};

struct HierarchicalOptions : ProcessGroupOptions {
  /// Ranks that give the same name share memory; "" means this machine's own name.
  std::string host;
  /// Wraps the leaders' group on the network in another communicator, for example with_nccl().
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> leaders;
};

/// Takes a group of all ranks over a network (gloo_group.h, mpi_group.h), and groups it by host.
///
/// REQUIRES: ranks are processes; all call it, with a store that serves them all; the network's
///           deadline is longer by kNetworkPatience
/// Throws:   CollectiveError if the ranks of a host do not find each other; as join_process_group
std::unique_ptr<Communicator> make_hierarchical_group(std::unique_ptr<Communicator> network,
                                                      const Store& store,
                                                      const HierarchicalOptions& options = {},
                                                      Where where = Where::current());

}  // namespace ringrad
