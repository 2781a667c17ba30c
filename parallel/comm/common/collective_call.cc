#include "ringrad/parallel/comm/common/collective_call.h"

#include <algorithm>
#include <ostream>
#include <sstream>
#include <vector>

#include "ringrad/parallel/comm/common/call_purpose.h"

namespace ringrad {

CollectiveCall call_of(CollectiveOp op, const Tensor& buffer, ReduceOp reduce, int peer) {
  return {.op = op,
          .dtype = buffer.dtype(),
          .reduce = reduce,
          .device = buffer.device().type,
          .peer = static_cast<std::int16_t>(peer),
          .purpose = PurposeScope::current(),
          .count = buffer.numel()};
}

const char* name(CollectiveOp op) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "reduce",     "all_to_all",     "barrier",    "send",
                                    "recv",       "links"};
  return kNames[static_cast<std::size_t>(op)];
}

namespace {

std::ostream& print(std::ostream& out, const CollectiveCall& call, const RankNames& names) {
  out << name(call.op) << '(';
  if (call.op == CollectiveOp::barrier || call.op == CollectiveOp::links) return out << ')';
  if (is_reduction(call.op)) out << call.reduce << ", ";
  out << call.dtype << ", " << call.count << " elements";
  if (call.device == DeviceType::cuda) out << " on cuda";
  if (call.op == CollectiveOp::broadcast || call.op == CollectiveOp::reduce)
    out << ", root " << names(call.peer);
  if (call.op == CollectiveOp::send) out << ", to " << names(call.peer);
  if (call.op == CollectiveOp::recv) out << ", from " << names(call.peer);
  return out << ')';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const CollectiveCall& call) {
  return print(out, call, {});
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  static const RankNames own_numbers;
  const RankNames& names = operation.names ? *operation.names : own_numbers;
  return print(out, operation.call, names)
         << " #" << operation.sequence << " on rank " << names(operation.rank);
}

void throw_broken_group(const Operation& operation, int culprit, std::string_view failure) {
  throw CollectiveError(
      concat(operation, ": the group must be whole; got a failure of ",
             culprit < 0 ? "an unknown rank" : concat("rank ", culprit), ": ", failure),
      operation.where);
}

std::string list_calls(std::span<const CollectiveCall> calls, const RankNames& names,
                       std::span<const int> ranks) {
  // Purposes are told apart only where no more than plans differ, and plans only where nothing else
  // does.
  const auto differ_at_most = [&](bool in_purpose) {
    return std::all_of(calls.begin(), calls.end(), [&](CollectiveCall call) {
      call.plan = calls[0].plan;
      if (in_purpose) call.purpose = calls[0].purpose;
      return call == calls[0];
    });
  };
  const bool only_plans_differ = differ_at_most(/*in_purpose=*/false);
  const bool only_purposes_differ = !only_plans_differ && differ_at_most(/*in_purpose=*/true);
  std::ostringstream out;
  std::vector<bool> listed(calls.size(), false);
  for (std::size_t first = 0; first < calls.size(); ++first) {
    if (listed[first]) continue;
    std::vector<int> alike;
    for (std::size_t i = first; i < calls.size(); ++i)
      if (calls[i] == calls[first]) {
        listed[i] = true;
        alike.push_back(ranks.empty() ? static_cast<int>(i) : ranks[i]);
      }
    print(out << (first == 0 ? "" : " and "), calls[first], names);
    if (only_purposes_differ) out << " for " << describe_purpose(calls[first].purpose);
    if (only_plans_differ) out << " by plan " << std::hex << calls[first].plan << std::dec;
    out << " on " << names.list(alike);
  }
  return std::move(out).str();
}

int odd_one_out(std::span<const CollectiveCall> calls, int world_size, std::span<const int> ranks) {
  const auto rank_of = [&](std::size_t i) {
    return ranks.empty() ? static_cast<int>(i) : ranks[i];
  };
  for (const CollectiveCall& call : calls) {
    if (2 * std::count(calls.begin(), calls.end(), call) <= world_size) continue;
    const auto odd = std::find_if(calls.begin(), calls.end(),
                                  [&](const CollectiveCall& other) { return other != call; });
    return odd == calls.end() ? -1 : rank_of(static_cast<std::size_t>(odd - calls.begin()));
  }
  return -1;
}

}  // namespace ringrad
