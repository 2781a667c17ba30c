#include "parallel/comm/collective_call.h"

#include <algorithm>
#include <ostream>
#include <sstream>
#include <vector>

namespace ringrad {

CollectiveCall call_of(CollectiveOp op, const Tensor& buffer, ReduceOp reduce, int peer) {
  return {.op = op,
          .dtype = buffer.dtype(),
          .reduce = reduce,
          .device = buffer.device().type,
          .peer = static_cast<std::int16_t>(peer),
          .count = buffer.numel()};
}

const char* name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_reduce:
      return "all_reduce";
    case CollectiveOp::reduce_scatter:
      return "reduce_scatter";
    case CollectiveOp::all_gather:
      return "all_gather";
    case CollectiveOp::broadcast:
      return "broadcast";
    case CollectiveOp::reduce:
      return "reduce";
    case CollectiveOp::all_to_all:
      return "all_to_all";
    case CollectiveOp::barrier:
      return "barrier";
    case CollectiveOp::send:
      return "send";
    case CollectiveOp::recv:
      return "recv";
    case CollectiveOp::links:
      break;
  }
  return "links";
}

std::ostream& operator<<(std::ostream& out, const CollectiveCall& call) {
  out << name(call.op) << '(';
  if (call.op == CollectiveOp::barrier || call.op == CollectiveOp::links) return out << ')';
  if (call.op == CollectiveOp::all_reduce || call.op == CollectiveOp::reduce_scatter ||
      call.op == CollectiveOp::reduce)
    out << call.reduce << ", ";
  out << call.dtype << ", " << call.count << " elements";
  if (call.device == DeviceType::cuda) out << " on cuda";
  if (call.op == CollectiveOp::broadcast || call.op == CollectiveOp::reduce)
    out << ", root " << call.peer;
  if (call.op == CollectiveOp::send) out << ", to " << call.peer;
  if (call.op == CollectiveOp::recv) out << ", from " << call.peer;
  return out << ')';
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << operation.call << " #" << operation.sequence << " on rank " << operation.rank;
}

std::string list_ranks(std::span<const int> ranks) {
  std::ostringstream out;
  out << (ranks.size() == 1 ? "rank" : "ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i) out << (i == 0 ? " " : ", ") << ranks[i];
  return std::move(out).str();
}

std::string list_calls(std::span<const CollectiveCall> calls) {
  // Plans are told apart only where nothing else differs.
  const auto asks_alike = [&](CollectiveCall call) {
    call.plan = calls[0].plan;
    return call == calls[0];
  };
  const bool only_plans_differ = std::all_of(calls.begin(), calls.end(), asks_alike);
  std::ostringstream out;
  std::vector<bool> listed(calls.size(), false);
  for (std::size_t first = 0; first < calls.size(); ++first) {
    if (listed[first]) continue;
    std::vector<int> ranks;
    for (std::size_t r = first; r < calls.size(); ++r)
      if (calls[r] == calls[first]) {
        listed[r] = true;
        ranks.push_back(static_cast<int>(r));
      }
    out << (first == 0 ? "" : " and ") << calls[first];
    if (only_plans_differ) out << " by plan " << std::hex << calls[first].plan << std::dec;
    out << " on " << list_ranks(ranks);
  }
  return std::move(out).str();
}

}  // namespace ringrad
