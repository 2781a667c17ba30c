#include "ringrad/parallel/comm/network/transport_collectives.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {
namespace {

// The largest element: a cut at a multiple of it does not cut one.
constexpr std::size_t kElement = 8;

void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

// Memory for the time of the call, and for longer if the transport needs it.
std::byte* scratch(std::size_t bytes, TransportCall& call) {
  const Tensor memory =
      empty({static_cast<std::int64_t>(bytes)}, {.dtype = DType::uint8, .device = Device()});
  call.use(memory);
  return memory.raw_data();
}

// A buffer that is cut into the plan's chunks, which begin at multiples of `granule` elements.
TransportRun::Places cut(std::byte* data, std::size_t bytes, const CollectivePlan& plan,
                         std::size_t element, std::int64_t granule) {
  const auto count = static_cast<std::int64_t>(bytes / element);
  return [=, num_chunks = plan.num_chunks](int chunk) {
    const ElementRange range = chunk_range(count, num_chunks, chunk, granule);
    return std::span(data + range.begin * element, range.size() * element);
  };
}

std::int64_t aligned(std::size_t element) {
  return kChunkAlignment / static_cast<std::int64_t>(element);
}

}  // namespace

std::vector<std::byte> gather(Transport& transport, int rank, int world_size,
                              std::span<const std::byte> own, TransportCall& call) {
  const std::size_t all_bytes = own.size() * static_cast<std::size_t>(world_size);
  std::byte* const all = scratch(all_bytes, call);
  std::byte* const mine = all + rank * own.size();
  std::ranges::copy(own, mine);
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int distance = 1; distance < world_size; ++distance) {
    const int from = (rank + world_size - distance) % world_size;
    transfers.push_back(transport.recv(all + from * own.size(), own.size(), from,
                                       Channel::collectives, call.memory()));
    transfers.push_back(transport.send(mine, own.size(), (rank + distance) % world_size,
                                       Channel::collectives, call.memory()));
  }
  for (const auto& transfer : transfers) transfer->wait(call);
  return {all, all + all_bytes};
}

TransportCollectives::TransportCollectives(std::unique_ptr<Transport> transport, int rank,
                                           int world_size, std::size_t largest_piece,
                                           TransportPlans plans)
    : transport_(transport.release()),
      rank_(rank),
      world_size_(world_size),
      largest_piece_(std::max(largest_piece / kElement * kElement, kElement)),
      plans_(std::move(plans)) {}

void TransportCollectives::carry_out(const CollectivePlan& plan, TransportRun::Places places,
                                     const Terms& terms, TransportCall& call) {
  if (transport_)
    TransportRun(*transport_, rank_, largest_piece_, call, std::move(places), terms)
        .run(plan.steps);
}

void TransportCollectives::run(const CollectivePlan& plan, std::byte* out, const std::byte* in,
                               std::size_t bytes, const Terms& terms, TransportCall& call) {
  const std::size_t part_bytes = bytes / static_cast<std::size_t>(world_size_);
  switch (plan.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return reduce(plan, out, bytes, terms, call);
    case Collective::reduce_scatter:
      return reduce_scatter(plan, out, in, part_bytes, terms, call);
    case Collective::all_gather:
      return all_gather(plan, out, in, part_bytes, call);
    case Collective::broadcast:
      return carry_out(plan, cut(out, bytes, plan, 1, kChunkAlignment), {}, call);
    case Collective::all_to_all:
      return all_to_all(plan, out, in, part_bytes, call);
  }
}

void TransportCollectives::divide_mean(std::byte* data, std::size_t bytes,
                                       const Terms& terms) const {
  const auto count = static_cast<std::int64_t>(bytes / size_bytes(terms.dtype));
  const std::byte* const sum[] = {data};
  std::byte* const mean[] = {data};
  if (terms.op == ReduceOp::mean && count > 0)
    reduce_terms(terms.dtype, terms.op, sum, mean, count, world_size_);
}

void TransportCollectives::reduce(const CollectivePlan& plan, std::byte* data, std::size_t bytes,
                                  const Terms& terms, TransportCall& call) {
  const std::size_t element = size_bytes(terms.dtype);
  carry_out(plan, cut(data, bytes, plan, element, aligned(element)), terms, call);
  if (is_promised(plan, rank_, 0)) divide_mean(data, bytes, terms);
}

// The caller's input is not written: unless the plan sums up only what is this rank's, it works on
// a copy.
void TransportCollectives::reduce_scatter(const CollectivePlan& plan, std::byte* out,
                                          const std::byte* in, std::size_t part_bytes,
                                          const Terms& terms, TransportCall& call) {
  const std::size_t bytes = part_bytes * static_cast<std::size_t>(world_size_);
  const bool writes_others = std::ranges::any_of(plan.steps, [&](const Step& step) {
    return is_receive(step.op) && owner(plan, step.chunk) != rank_;
  });
  std::byte* work = const_cast<std::byte*>(in);
  if (writes_others) {
    work = scratch(bytes, call);
    move_bytes(work, in, bytes);
  }
  move_bytes(out, in + own() * part_bytes, part_bytes);
  const auto places = cut(work, bytes, plan, size_bytes(terms.dtype), 1);
  const std::ptrdiff_t to_out = out - (work + own() * part_bytes);
  carry_out(
      plan,
      [&](int chunk) {
        const std::span<std::byte> place = places(chunk);
        return owner(plan, chunk) == rank_ ? std::span(place.data() + to_out, place.size()) : place;
      },
      terms, call);
  divide_mean(out, part_bytes, terms);
}

void TransportCollectives::all_gather(const CollectivePlan& plan, std::byte* out,
                                      const std::byte* in, std::size_t part_bytes,
                                      TransportCall& call) {
  const std::size_t bytes = part_bytes * static_cast<std::size_t>(world_size_);
  move_bytes(out + own() * part_bytes, in, part_bytes);
  carry_out(plan, cut(out, bytes, plan, 1, 1), {}, call);
}

// Chunk s * n + d goes from rank s to rank d: it lies in the input of s, in the output of d, and in
// scratch memory of a rank that relays it.
void TransportCollectives::all_to_all(const CollectivePlan& plan, std::byte* out,
                                      const std::byte* in, std::size_t part_bytes,
                                      TransportCall& call) {
  const std::size_t bytes = part_bytes * static_cast<std::size_t>(world_size_);
  move_bytes(out + own() * part_bytes, in + own() * part_bytes, part_bytes);
  std::byte* row = const_cast<std::byte*>(in);
  if (std::ranges::any_of(plan.steps, [&](const Step& step) {
        return is_receive(step.op) && step.chunk / world_size_ == rank_;
      })) {
    row = scratch(bytes, call);
    move_bytes(row, in, bytes);
  }
  std::map<int, std::byte*> relayed;
  carry_out(
      plan,
      [&](int chunk) {
        const int from = chunk / world_size_, to = chunk % world_size_;
        std::byte* place = nullptr;
        if (to == rank_) {
          place = out + from * part_bytes;
        } else if (from == rank_) {
          place = row + to * part_bytes;
        } else {
          std::byte*& relay = relayed[chunk];
          if (!relay) relay = scratch(part_bytes, call);
          place = relay;
        }
        return std::span(place, part_bytes);
      },
      {}, call);
}

bool TransportCollectives::are_equal(std::span<const std::byte> own, TransportCall& call) {
  if (!transport_) return true;
  const std::size_t bytes = own.size() + 1;  // the value, and whether it has been the same so far
  std::byte *const mine = scratch(bytes, call), *const theirs = scratch(bytes, call);
  std::ranges::copy(own, mine);
  mine[own.size()] = std::byte{1};
  for (int distance = 1; distance < world_size_; distance *= 2) {
    const auto arrival =
        transport_->recv(theirs, bytes, (rank_ + world_size_ - distance) % world_size_,
                         Channel::collectives, call.memory());
    const auto sent = transport_->send(mine, bytes, (rank_ + distance) % world_size_,
                                       Channel::collectives, call.memory());
    arrival->wait(call);
    sent->wait(call);
    if (std::memcmp(mine, theirs, bytes) != 0) mine[own.size()] = std::byte{0};
  }
  return mine[own.size()] == std::byte{1};
}

}  // namespace ringrad
