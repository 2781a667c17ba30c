// Collectives composed of an engine's few operations (engine.h), for buffers of any size and also
// for one rank.
//
// The engine moves data, and this code adds it in rank order (reduce_terms.h):
//
//     all_reduce       all_to_all of chunks, so that rank r has every rank's r-th; a sum;
//                      all_gather of the sums. Small ones: all_gather of all data, and each rank
//                      adds for itself
//     reduce           the same, but sums go to the root
//     reduce_scatter   all_to_all of the parts; a sum
//
// So results have the bits of the `canonical` plans, equal on all ranks, whatever the library and
// however a buffer is cut. Buffers that exceed an engine's limit are cut: those of one rank into
// pieces, and those with a part per rank into columns, which are packed.
//
//     part 0 [ a | b | c ]   part 1 [ d | e | f ]   ->   [ a d ] [ b e ] [ c f ]

#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/comm/engine.h"
#include "parallel/comm/reduce_op.h"

namespace ringrad {

class EngineCollectives {
 public:
  static constexpr int kAllRanks = -1;

  /// The carrier dtype of the elements that a reduction adds, and the operation.
  struct Terms {
    DType dtype;
    ReduceOp op;
  };

  /// `engine` is null for one rank. No buffer that it gets is larger than `largest_piece`, or one
  /// element per rank.
  EngineCollectives(std::unique_ptr<Engine> engine, int rank, int world_size,
                    std::size_t largest_piece);

  Engine* engine() const { return engine_.get(); }

  // Sizes are in bytes; part_bytes is the size of one part. All throw EngineError. The memory that
  // `call` holds must include the arguments.

  /// In place, on `root` or kAllRanks; the other ranks' data is scratch memory.
  void reduce(std::byte* data, std::size_t bytes, int root, const Terms& terms, EngineCall& call);
  void reduce_scatter(std::byte* out, const std::byte* in, std::size_t part_bytes,
                      const Terms& terms, EngineCall& call);
  /// `in` may be this rank's part of `out`.
  void all_gather(std::byte* out, const std::byte* in, std::size_t part_bytes, EngineCall& call);
  void all_to_all(std::byte* out, const std::byte* in, std::size_t part_bytes, EngineCall& call);
  void broadcast(std::byte* data, std::size_t bytes, int root, EngineCall& call);

  /// Calls body(first, size) for pieces of `bytes` that fit the engine's limit.
  template <class Body>
  void for_pieces(std::size_t bytes, Body body) const;

 private:
  using Bytes = std::vector<std::size_t>;  // (world_size)

  std::size_t size() const { return static_cast<std::size_t>(world_size_); }
  std::size_t own() const { return static_cast<std::size_t>(rank_); }
  template <class Body>
  void for_columns(std::size_t part_bytes, Body body) const;
  std::byte* scratch(std::size_t bytes, EngineCall& call) const;
  std::byte* pack(const std::byte* parts, std::size_t part_bytes, std::size_t first,
                  std::size_t width, EngineCall& call) const;
  void unpack(const std::byte* packed, std::byte* parts, std::size_t part_bytes, std::size_t first,
              std::size_t width) const;

  void gather_parts(std::byte* out, const Bytes& bytes, EngineCall& call);
  void exchange_parts(std::byte* out, const Bytes& out_bytes, const std::byte* in,
                      const Bytes& in_bytes, EngineCall& call);
  void add(std::byte* out, const std::byte* parts, std::size_t part_bytes,
           const Terms& terms) const;
  void reduce_chunk(std::byte* out, const std::byte* in, const Bytes& in_bytes, const Terms& terms,
                    EngineCall& call);
  void reduce_piece(std::byte* data, std::size_t bytes, int root, const Terms& terms,
                    EngineCall& call);

  const std::unique_ptr<Engine> engine_;
  const int rank_, world_size_;
  const std::size_t largest_piece_;
};

// Implementation details follow.

template <class Body>
void EngineCollectives::for_pieces(std::size_t bytes, Body body) const {
  for (std::size_t first = 0; first < bytes; first += largest_piece_)
    body(first, std::min(largest_piece_, bytes - first));
}

}  // namespace ringrad
