// Collectives composed of a transport's few operations (transport.h), for buffers of any size and
// also for one rank.
//
// The transport moves data, and this code adds it in rank order (reduce_terms.h):
//
//     all_reduce       all_to_all of chunks, so that rank r has every rank's r-th; a sum;
//                      all_gather of the sums. Small ones: all_gather of all data, and each rank
//                      adds for itself
//     reduce           the same, but sums go to the root
//     reduce_scatter   all_to_all of the parts; a sum
//
// So results have the bits of the `canonical` plans, equal on all ranks, whatever the library and
// however a buffer is cut. Buffers that exceed a transport's limit are cut: those of one rank into
// pieces, and those with a part per rank into columns, which are packed.
//
//     part 0 [ a | b | c ]   part 1 [ d | e | f ]   ->   [ a d ] [ b e ] [ c f ]

#pragma once

#include <cstddef>
#include <cstdint>

#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/reduce_op.h"
#include "ringrad/parallel/comm/network/transport.h"

namespace ringrad {

class TransportCollectives {
 public:
  static constexpr int kAllRanks = -1;

  /// The carrier dtype of the elements that a reduction adds, and the operation.
  struct Terms {
    DType dtype;
    ReduceOp op;
  };

  /// `transport` is null for one rank. It gets no buffer larger than `largest_piece`, or than one
  /// element per rank if that is more.
  TransportCollectives(std::unique_ptr<Transport> transport, int rank, int world_size,
                       std::size_t largest_piece);

  Transport* transport() const { return transport_.get(); }

  // Sizes are in bytes; part_bytes is the size of one part. All throw TransportError. The memory
  // that `call` holds must include the arguments.

  /// In place, on `root` or kAllRanks; the other ranks' data is scratch memory.
  void reduce(std::byte* data, std::size_t bytes, int root, const Terms& terms,
              TransportCall& call);
  void reduce_scatter(std::byte* out, const std::byte* in, std::size_t part_bytes,
                      const Terms& terms, TransportCall& call);
  /// `in` may be this rank's part of `out`.
  void all_gather(std::byte* out, const std::byte* in, std::size_t part_bytes, TransportCall& call);
  void all_to_all(std::byte* out, const std::byte* in, std::size_t part_bytes, TransportCall& call);
  void broadcast(std::byte* data, std::size_t bytes, int root, TransportCall& call);

  /// Calls body(first, size) for pieces of `bytes` that fit the transport's limit.
  template <class Body>
  void for_pieces(std::size_t bytes, Body body) const;

 private:
  using Bytes = std::vector<std::size_t>;  // (world_size)

  std::size_t size() const { return static_cast<std::size_t>(world_size_); }
  std::size_t own() const { return static_cast<std::size_t>(rank_); }
  template <class Body>
  void for_columns(std::size_t part_bytes, Body body) const;
  std::byte* scratch(std::size_t bytes, TransportCall& call) const;
  std::byte* pack(const std::byte* parts, std::size_t part_bytes, std::size_t first,
                  std::size_t width, TransportCall& call) const;
  void unpack(const std::byte* packed, std::byte* parts, std::size_t part_bytes, std::size_t first,
              std::size_t width) const;

  void gather_parts(std::byte* out, const Bytes& bytes, TransportCall& call);
  void exchange_parts(std::byte* out, const Bytes& out_bytes, const std::byte* in,
                      const Bytes& in_bytes, TransportCall& call);
  void add(std::byte* out, const std::byte* parts, std::size_t part_bytes,
           const Terms& terms) const;
  void reduce_chunk(std::byte* out, const std::byte* in, const Bytes& in_bytes, const Terms& terms,
                    TransportCall& call);
  void reduce_piece(std::byte* data, std::size_t bytes, int root, const Terms& terms,
                    TransportCall& call);

  const OwnedByProcess<Transport> transport_;
  const int rank_, world_size_;
  const std::size_t largest_piece_;
};

// Implementation details follow.

template <class Body>
void TransportCollectives::for_pieces(std::size_t bytes, Body body) const {
  for (std::size_t first = 0; first < bytes; first += largest_piece_)
    body(first, std::min(largest_piece_, bytes - first));
}

}  // namespace ringrad
