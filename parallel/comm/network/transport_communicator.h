// A communicator over a foreign library (transport.h): what all such backends share. The library
// moves messages, and plans say which (transport_collectives.h), so results have the bits of the
// plans.
//
// Before data moves, the ranks compare their calls, 24 bytes each. Failures are detected, named and
// reported as described in failure_board.h, within the deadline plus GroupOptions::verdict_time. A
// message is copied when it is sent; up to four messages to each rank may wait to be received.
// Tensors lie on the CPU.

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/network/transport.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

inline constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

/// Without a planner a plan depends on the size alone: `links` has no effect.
struct TransportOptions : GroupOptions {
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
  /// The library gets buffers in pieces of at most this many bytes, since some libraries count in
  /// 32 bits.
  std::size_t largest_piece = kLargestPiece;
  /// The network for tensors, as an address of this machine or the name of an interface. If empty,
  /// RINGRAD_INTERFACE gives it; without either, all ranks must be on one machine.
  std::string interface;
  /// For hierarchical plans: how many neighbouring ranks share each machine. 0 (the default) means
  /// all ranks; in join_gloo_group() without a store, the launcher's number if it divides theirs.
  int ranks_per_host = 0;
};

/// `options`, with the environment's interface if they name none.
TransportOptions with_interface(TransportOptions options);

/// Returns when all ranks of the group have announced themselves in the store.
///
/// Throws: CollectiveError if some do not, if one does so twice, or if they disagree on the number
///         of ranks; ValueError unless rank, world_size and options are valid
void meet(Store& store, const std::string& group, int rank, int world_size,
          const TransportOptions& options, Where where);

/// REQUIRES: the ranks have met; there is a transport unless world_size is 1
std::unique_ptr<Communicator> make_transport_communicator(const Store& store, std::string group,
                                                          int rank, int world_size,
                                                          std::unique_ptr<Transport> transport,
                                                          const TransportOptions& options,
                                                          Where where);

}  // namespace ringrad
