// The collectives of a group over a transport: plans (transport_plans.h), carried out as messages
// (transport_run.h), for buffers of any size and also for one rank.
//
// The default plans add in rank order, so results have the bits of the `canonical` plans, equal on
// all ranks, whatever the library and however a buffer is cut.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/network/transport.h"
#include "ringrad/parallel/comm/network/transport_plans.h"
#include "ringrad/parallel/comm/network/transport_run.h"

namespace ringrad {

/// The bytes of all ranks, in rank order. Uses no plan, so ranks need not have agreed on one.
///
/// Throws: TransportError
std::vector<std::byte> gather(Transport& transport, int rank, int world_size,
                              std::span<const std::byte> own, TransportCall& call);

class TransportCollectives {
 public:
  /// `transport` is null for one rank. It gets no message larger than `largest_piece`.
  TransportCollectives(std::unique_ptr<Transport> transport, int rank, int world_size,
                       std::size_t largest_piece, TransportPlans plans);

  Transport* transport() const { return transport_.get(); }

  /// The plan for a buffer of this many bytes. Throws: as TransportPlans::get
  const NumberedPlan& plan(Collective collective, std::size_t bytes, int root, Where where) {
    return plans_.get(collective, bytes, root, where);
  }

  /// Runs the plan's collective. `bytes` is the size of the larger buffer. The memory that `call`
  /// holds must include both. Collectives in place (is_in_place) work on `out`; on ranks that get
  /// no result, it is scratch memory. In an all_gather, `in` may be this rank's part of `out`.
  ///
  /// Throws: TransportError
  void run(const CollectivePlan& plan, std::byte* out, const std::byte* in, std::size_t bytes,
           const Terms& terms, TransportCall& call);

  /// True on all ranks if `own` is the same on all of them. In round k, each rank receives what the
  /// rank 2^k before it has received so far: ceil(log2(world_size)) rounds suffice.
  ///
  /// Paper: Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization"
  bool are_equal(std::span<const std::byte> own, TransportCall& call);
  /// Calls body(first, size) for pieces of `bytes` that fit the transport's limit.
  template <class Body>
  void for_pieces(std::size_t bytes, Body body) const;

 private:
  std::size_t own() const { return static_cast<std::size_t>(rank_); }
  void reduce(const CollectivePlan& plan, std::byte* data, std::size_t bytes, const Terms& terms,
              TransportCall& call);
  void reduce_scatter(const CollectivePlan& plan, std::byte* out, const std::byte* in,
                      std::size_t part_bytes, const Terms& terms, TransportCall& call);
  void all_gather(const CollectivePlan& plan, std::byte* out, const std::byte* in,
                  std::size_t part_bytes, TransportCall& call);
  void all_to_all(const CollectivePlan& plan, std::byte* out, const std::byte* in,
                  std::size_t part_bytes, TransportCall& call);
  void carry_out(const CollectivePlan& plan, TransportRun::Places places, const Terms& terms,
                 TransportCall& call);
  void divide_mean(std::byte* data, std::size_t bytes, const Terms& terms) const;

  const OwnedByProcess<Transport> transport_;
  const int rank_, world_size_;
  const std::size_t largest_piece_;
  TransportPlans plans_;
};

// Implementation details follow.

template <class Body>
void TransportCollectives::for_pieces(std::size_t bytes, Body body) const {
  for (std::size_t first = 0; first < bytes; first += largest_piece_)
    body(first, std::min(largest_piece_, bytes - first));
}

}  // namespace ringrad
