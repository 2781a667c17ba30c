#include "ringrad/parallel/comm/network/transport_run.h"

#include <algorithm>
#include <set>

#include "ringrad/parallel/comm/blocks/reduce_terms.h"

namespace ringrad {
namespace {

std::span<std::byte> bytes_of(const Tensor& memory) {
  return {memory.raw_data(), static_cast<std::size_t>(memory.numel())};
}

Tensor memory_of(std::size_t bytes) {
  return empty({static_cast<std::int64_t>(bytes)}, {.dtype = DType::uint8, .device = Device()});
}

std::vector<Tensor> with(std::vector<Tensor> memory, const Tensor& more) {
  if (more.defined()) memory.push_back(more);
  return memory;
}

}  // namespace

void TransportRun::run(std::span<const Step> steps) {
  auto arrivals = begin_receives(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (is_receive(step.op)) {
      receive(step, arrivals[i]);
    } else if (step.op == StepOp::stage) {
      wait_for_sends_of(staged(step.chunk).data());
      std::ranges::copy(places_(step.chunk), staged(step.chunk).begin());
    } else {
      send(step.op == StepOp::send ? places_(step.chunk) : staged(step.chunk), step.peers[0]);
    }
  }
  for (Sent& sent : sent_) wait(sent.pieces);
  sent_.clear();
}

// Begins each receive that may begin at once: no earlier step uses its place, and it does not
// overtake a message from the same rank.
std::vector<std::vector<TransportRun::Arrival>> TransportRun::begin_receives(
    std::span<const Step> steps) {
  std::vector<std::vector<Arrival>> arrivals(steps.size());
  std::set<const std::byte*> used;
  std::set<int> late;  // the ranks whose next message waits for its turn
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const std::span<std::byte> place = places_(step.chunk);
    const bool is_sum = step.op == StepOp::recv_reduce;
    if (is_receive(step.op) && !place.empty())
      for (const int from : step.peers) {
        if (from == rank_) continue;
        Arrival& arrival = arrivals[i].emplace_back();
        arrival.from = from;
        if (is_sum) arrival.scratch = memory_of(place.size());
        if (!is_sum && used.contains(place.data())) late.insert(from);
        if (!late.contains(from)) begin(arrival, is_sum ? bytes_of(arrival.scratch) : place);
      }
    used.insert(place.data());
  }
  return arrivals;
}

void TransportRun::begin(Arrival& arrival, std::span<std::byte> to) {
  for (std::size_t at = 0; at < to.size(); at += largest_piece_)
    arrival.pieces.push_back(
        transport_.recv(to.data() + at, std::min(largest_piece_, to.size() - at), arrival.from,
                        Channel::collectives, with(call_.memory(), arrival.scratch)));
  arrival.has_begun = true;
}

void TransportRun::receive(const Step& step, std::vector<Arrival>& arrivals) {
  const std::span<std::byte> place = places_(step.chunk);
  if (place.empty()) return;
  if (step.op == StepOp::recv && !arrivals[0].has_begun) wait_for_sends_of(place.data());
  for (Arrival& arrival : arrivals)
    if (!arrival.has_begun)
      begin(arrival, arrival.scratch.defined() ? bytes_of(arrival.scratch) : place);
  for (Arrival& arrival : arrivals) wait(arrival.pieces);
  if (step.op == StepOp::recv) return;
  wait_for_sends_of(place.data());
  std::vector<const std::byte*> terms;
  auto arrival = arrivals.begin();
  for (const int from : step.peers)
    terms.push_back(from == rank_ ? place.data() : (arrival++)->scratch.raw_data());
  std::byte* const sums[] = {place.data()};
  reduce_terms(terms_.dtype, terms_.op == ReduceOp::mean ? ReduceOp::sum : terms_.op, terms, sums,
               static_cast<std::int64_t>(place.size() / size_bytes(terms_.dtype)), 1);
}

void TransportRun::send(std::span<const std::byte> from, int to) {
  if (from.empty()) return;
  Sent& sent = sent_.emplace_back(Sent{from.data(), {}});
  for (std::size_t at = 0; at < from.size(); at += largest_piece_)
    sent.pieces.push_back(transport_.send(from.data() + at,
                                          std::min(largest_piece_, from.size() - at), to,
                                          Channel::collectives, call_.memory()));
}

std::span<std::byte> TransportRun::staged(int chunk) {
  Tensor& memory = staged_[chunk];
  if (!memory.defined()) {
    memory = memory_of(places_(chunk).size());
    call_.use(memory);
  }
  return bytes_of(memory);
}

void TransportRun::wait_for_sends_of(const std::byte* place) {
  for (Sent& sent : sent_)
    if (sent.from == place) wait(sent.pieces);
  std::erase_if(sent_, [&](const Sent& sent) { return sent.from == place; });
}

void TransportRun::wait(Transfers& pieces) {
  for (const auto& piece : pieces) piece->wait(call_);
  pieces.clear();
}

}  // namespace ringrad
