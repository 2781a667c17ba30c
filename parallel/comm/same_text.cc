#include "ringrad/parallel/comm/same_text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ringrad/parallel/comm/common/collective_call.h"

namespace ringrad {

std::string text_of_root(const std::string& ours, Communicator& comm, Where where) {
  const Tensor length = full({1}, static_cast<std::int64_t>(ours.size()),
                             {.dtype = DType::int64, .device = Device()});
  comm.broadcast(length, 0, where);
  const auto count = length.item<std::int64_t>();
  if (count == 0) return {};
  const Tensor bytes = empty({count}, {.dtype = DType::uint8, .device = Device()});
  if (comm.rank() == 0) std::copy(ours.begin(), ours.end(), bytes.data<std::uint8_t>());
  comm.broadcast(bytes, 0, where);
  return {bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + count};
}

std::string first_difference(const std::string& ours, const std::string& theirs) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < ours.size() && i < theirs.size() && ours[i] == theirs[i]; ++i)
    if (ours[i] == '\n') line = i + 1;
  const auto line_of = [&](const std::string& text) {
    return line < text.size() ? text.substr(line, text.find('\n', line) - line) : "nothing more";
  };
  return concat('"', line_of(ours), "\" and \"", line_of(theirs), '"');
}

void check_same_text(const std::string& rule, const std::string& ours, Communicator& comm,
                     Where where) {
  const std::string reference = text_of_root(ours, comm, where);
  const Tensor differs =
      zeros({comm.world_size()}, {.dtype = DType::int32, .device = Device()}, where);
  differs.data<std::int32_t>()[comm.rank()] = ours != reference;
  comm.all_reduce(differs, ReduceOp::sum, where);
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.world_size(); ++rank)
    if (differs.data<std::int32_t>()[rank]) ranks.push_back(rank);
  RINGRAD_CHECK(
      ranks.empty(), CollectiveError, where, rule, "; different on ", comm.rank_names().list(ranks),
      ours == reference ? std::string() : concat(", first at ", first_difference(ours, reference)));
}

}  // namespace ringrad
