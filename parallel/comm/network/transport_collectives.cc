#include "ringrad/parallel/comm/network/transport_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {
namespace {

// Below, one exchange of everything takes less time than two of parts.
constexpr std::size_t kSmallBytes = 8192;

// The largest element: a cut at a multiple of it does not cut one.
constexpr std::size_t kElement = 8;

void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

TransportCollectives::TransportCollectives(std::unique_ptr<Transport> transport, int rank,
                                           int world_size, std::size_t largest_piece)
    : transport_(transport.release()),
      rank_(rank),
      world_size_(world_size),
      largest_piece_(std::max(largest_piece / kElement * kElement, kElement)) {}

// --- The transport's functions, for one rank too ---

void TransportCollectives::gather_parts(std::byte* out, const Bytes& bytes, TransportCall& call) {
  if (transport_) transport_->all_gather(out, bytes, call);
}

void TransportCollectives::exchange_parts(std::byte* out, const Bytes& out_bytes,
                                          const std::byte* in, const Bytes& in_bytes,
                                          TransportCall& call) {
  if (!transport_) return move_bytes(out, in, in_bytes[0]);
  transport_->all_to_all(out, out_bytes, in, in_bytes, call);
}

// --- Cutting ---

// Calls body(first, width) for columns of parts.
template <class Body>
void TransportCollectives::for_columns(std::size_t part_bytes, Body body) const {
  const std::size_t widest = std::max(largest_piece_ / size() / kElement * kElement, kElement);
  for (std::size_t first = 0; first < part_bytes; first += widest)
    body(first, std::min(widest, part_bytes - first));
}

// Memory for the time of the call, and for longer if the transport needs it.
std::byte* TransportCollectives::scratch(std::size_t bytes, TransportCall& call) const {
  const Tensor memory =
      empty({static_cast<std::int64_t>(bytes)}, {.dtype = DType::uint8, .device = Device()});
  call.use(memory);
  return memory.raw_data();
}

// A copy of a column, in which what is of each part lies in a row.
std::byte* TransportCollectives::pack(const std::byte* parts, std::size_t part_bytes,
                                      std::size_t first, std::size_t width,
                                      TransportCall& call) const {
  std::byte* const packed = scratch(width * size(), call);
  for (std::size_t r = 0; r < size(); ++r)
    move_bytes(packed + r * width, parts + r * part_bytes + first, width);
  return packed;
}

void TransportCollectives::unpack(const std::byte* packed, std::byte* parts, std::size_t part_bytes,
                                  std::size_t first, std::size_t width) const {
  for (std::size_t r = 0; r < size(); ++r)
    move_bytes(parts + r * part_bytes + first, packed + r * width, width);
}

// --- Reductions ---

// out = the parts of all ranks, which lie one after the other, added in rank order; it may be one
// of them.
void TransportCollectives::add(std::byte* out, const std::byte* parts, std::size_t part_bytes,
                               const Terms& terms) const {
  std::vector<const std::byte*> addresses;
  for (std::size_t r = 0; r < size(); ++r) addresses.push_back(parts + r * part_bytes);
  const auto count = static_cast<std::int64_t>(part_bytes / size_bytes(terms.dtype));
  std::byte* const outs[] = {out};
  if (count > 0) reduce_terms(terms.dtype, terms.op, addresses, outs, count, world_size_);
}

// out = the sum of what all ranks have for this one; it may lie in the input.
void TransportCollectives::reduce_chunk(std::byte* out, const std::byte* in, const Bytes& in_bytes,
                                        const Terms& terms, TransportCall& call) {
  const std::size_t own_bytes = in_bytes[own()];
  std::byte* const parts = scratch(own_bytes * size(), call);
  exchange_parts(parts, Bytes(size(), own_bytes), in, in_bytes, call);
  add(out, parts, own_bytes, terms);
}

void TransportCollectives::reduce_piece(std::byte* data, std::size_t bytes, int root,
                                        const Terms& terms, TransportCall& call) {
  if (bytes <= kSmallBytes) {
    std::byte* const parts = scratch(bytes * size(), call);
    move_bytes(parts + own() * bytes, data, bytes);
    gather_parts(parts, Bytes(size(), bytes), call);
    if (root == kAllRanks || root == rank_) add(data, parts, bytes, terms);
    return;
  }
  const std::size_t element = size_bytes(terms.dtype);
  const auto range_of = [&](int rank) {
    return chunk_range(static_cast<std::int64_t>(bytes / element), world_size_, rank,
                       kChunkAlignment / static_cast<std::int64_t>(element));
  };
  Bytes chunks;
  for (int r = 0; r < world_size_; ++r)
    chunks.push_back(static_cast<std::size_t>(range_of(r).size()) * element);
  if (root == kAllRanks) {
    reduce_chunk(data + range_of(rank_).begin * element, data, chunks, terms, call);
    return gather_parts(data, chunks, call);
  }
  std::byte* const sums = scratch(chunks[own()], call);
  reduce_chunk(sums, data, chunks, terms, call);
  Bytes to_root(size(), 0);
  to_root[static_cast<std::size_t>(root)] = chunks[own()];
  exchange_parts(data, root == rank_ ? chunks : Bytes(size(), 0), sums, to_root, call);
}

void TransportCollectives::reduce(std::byte* data, std::size_t bytes, int root, const Terms& terms,
                                  TransportCall& call) {
  for_pieces(bytes, [&](std::size_t first, std::size_t size) {
    reduce_piece(data + first, size, root, terms, call);
  });
}

void TransportCollectives::reduce_scatter(std::byte* out, const std::byte* in,
                                          std::size_t part_bytes, const Terms& terms,
                                          TransportCall& call) {
  for_columns(part_bytes, [&](std::size_t first, std::size_t width) {
    const std::byte* column = width == part_bytes ? in : pack(in, part_bytes, first, width, call);
    reduce_chunk(out + first, column, Bytes(size(), width), terms, call);
  });
}

// --- Moves ---

void TransportCollectives::all_gather(std::byte* out, const std::byte* in, std::size_t part_bytes,
                                      TransportCall& call) {
  for_columns(part_bytes, [&](std::size_t first, std::size_t width) {
    std::byte* const column = width == part_bytes ? out : scratch(width * size(), call);
    move_bytes(column + own() * width, in + first, width);
    gather_parts(column, Bytes(size(), width), call);
    if (column != out) unpack(column, out, part_bytes, first, width);
  });
}

void TransportCollectives::all_to_all(std::byte* out, const std::byte* in, std::size_t part_bytes,
                                      TransportCall& call) {
  for_columns(part_bytes, [&](std::size_t first, std::size_t width) {
    const Bytes bytes(size(), width);
    if (width == part_bytes) return exchange_parts(out, bytes, in, bytes, call);
    const std::byte* own_column = pack(in, part_bytes, first, width, call);
    std::byte* const column = scratch(width * size(), call);
    exchange_parts(column, bytes, own_column, bytes, call);
    unpack(column, out, part_bytes, first, width);
  });
}

void TransportCollectives::broadcast(std::byte* data, std::size_t bytes, int root,
                                     TransportCall& call) {
  if (!transport_) return;
  for_pieces(bytes, [&](std::size_t first, std::size_t size) {
    transport_->broadcast(data + first, size, root, call);
  });
}

}  // namespace ringrad
