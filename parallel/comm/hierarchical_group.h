// Ranks on several hosts that meet inside a host first: shared memory, or peer copies between GPUs, within a host,
// and one rank of each, its leader, on the network.
//
//     host a   rank 0 <-- 1    reduce      rank 0 <--> rank 2    all_reduce     rank 0 --> 1    broadcast
//     host b   rank 2 <-- 3    inside        the leaders alone                  rank 2 --> 3    inside
//
// Over the network go the bytes of one rank per host instead of all of them:
//
//     all_reduce, reduce, reduce_scatter, broadcast, all_gather, barrier     by host
//     all_to_all, send, recv                                                 between any two ranks, on the network
//
// Sums are made host by host, then over the hosts in the order of their first ranks; 16-bit floats travel in float32
// and are rounded once. All ranks hold the same bits, but not those of `canonical` order. A reduce_scatter costs
// what an all_reduce does.
//
// Failures are found out and named as over any network (failure_board.h), whichever of the three groups saw them.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/store.h"

namespace ringrad {

/// How much longer a network's deadline should be than that of the group upon it, which is to find out first.
inline constexpr std::chrono::seconds kNetworkPatience{2};

struct HierarchicalOptions : ProcessGroupOptions {
  /// Ranks that give the same name share memory; "" is this machine's own.
  std::string host;
  /// What the leaders put on top of their group on the network, with_nccl() for example.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> leaders;
};

/// Takes a group of all ranks over a network (gloo_group.h, mpi_group.h), and groups it by host.
///
/// REQUIRES: ranks are processes; all call it, with a store that serves them all; the network's deadline is longer by
///           kNetworkPatience
/// Throws:   CollectiveError if the ranks of a host do not find each other; as join_process_group
std::unique_ptr<Communicator> make_hierarchical_group(std::unique_ptr<Communicator> network,
                                                      const Store& store,
                                                      const HierarchicalOptions& options = {},
                                                      Where where = Where::current());

}  // namespace ringrad
