// A communicator over a foreign library (engine.h): what all such backends share. Collectives are made as
// engine_collectives.h says: the library moves, and we add, so bits are those of the `canonical` plans.
//
// Before data move the ranks exchange what they were called for, 24 bytes each. Failures are found, named and told
// as failure_board.h says: within the deadline and GroupOptions::verdict_time. A message is copied when it is sent; up to
// four to each rank may wait to be received. Tensors lie on the CPU.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/engine.h"
#include "parallel/comm/group_options.h"
#include "parallel/comm/store.h"

namespace ringrad {

inline constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

/// Plans are not used.
struct EngineOptions : GroupOptions {
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(30);
  /// Buffers are handed to the library in pieces of at most so many bytes: some count in 32 bits.
  std::size_t largest_piece = kLargestPiece;
  /// The network that tensors take, as an address of this machine or the name of an interface; where it is
  /// empty RINGRAD_INTERFACE says it, and without that ranks are of one machine.
  std::string interface;
};

/// `options` with the interface that the environment says, if it has none.
EngineOptions with_interface(EngineOptions options);

/// Returns when all ranks of the group have come to the store.
///
/// Throws: CollectiveError if they do not, if one comes twice, or if they count differently; ValueError unless
///         rank, world_size and options make sense
void meet(Store& store, const std::string& group, int rank, int world_size,
          const EngineOptions& options, Where where);

/// REQUIRES: met ranks; an engine unless world_size is 1
std::unique_ptr<Communicator> make_engine_communicator(const Store& store, std::string group,
                                                       int rank, int world_size,
                                                       std::unique_ptr<Engine> engine,
                                                       const EngineOptions& options, Where where);

}  // namespace ringrad
