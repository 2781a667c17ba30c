#include "ringrad/parallel/train/common/gradient_presence.h"

#include <algorithm>

namespace ringrad {
namespace {

constexpr std::uint8_t kMark = 2;

}  // namespace

Tensor gradient_presence(const std::vector<nn::ParameterArena>& arenas) {
  std::int64_t count = 0;
  for (const nn::ParameterArena& arena : arenas)
    count += static_cast<std::int64_t>(arena.parameters().size());
  const Tensor presence = empty({count}, {.dtype = DType::uint8, .device = Device()});
  auto* is_present = presence.data<std::uint8_t>();
  for (const nn::ParameterArena& arena : arenas)
    for (std::size_t i = 0; i < arena.parameters().size(); ++i)
      *is_present++ = arena.has_gradient(i);
  return presence;
}

void reduce_presence(const Tensor& presence, Communicator& comm, Where where) {
  if (presence.numel() > 0 && comm.world_size() > 1)
    comm.all_reduce(presence, ReduceOp::max, where);
}

void adopt_gradients(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence) {
  const auto* is_present = presence.data<std::uint8_t>();
  for (const nn::ParameterArena& arena : arenas)
    for (std::size_t i = 0; i < arena.parameters().size(); ++i)
      if (*is_present++ && arena.parameters()[i].requires_grad()) arena.adopt_gradient(i);
}

void FrozenParameters::mark(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence) {
  auto* const bytes = presence.data<std::uint8_t>();
  own_.assign(bytes, bytes + presence.numel());
  agreed_frozen_.resize(own_.size());
  std::size_t i = 0;
  for (const nn::ParameterArena& arena : arenas)
    for (const Tensor& parameter : arena.parameters()) {
      const bool is_frozen = !parameter.requires_grad();
      if (is_frozen) own_[i] = kMark;
      if (is_frozen != agreed_frozen_[i]) bytes[i] = kMark;
      ++i;
    }
}

bool FrozenParameters::is_marked(const Tensor& presence) {
  const auto* const bytes = presence.data<std::uint8_t>();
  return std::find(bytes, bytes + presence.numel(), kMark) != bytes + presence.numel();
}

void FrozenParameters::agree(const char* scheme, const Tensor& presence,
                             const std::function<std::string(std::size_t i)>& name_of,
                             Communicator& comm, Where where) {
  const auto count = static_cast<std::int64_t>(own_.size());
  const Options on_host{.dtype = DType::uint8, .device = Device()};
  const Tensor mine = empty({count}, on_host, where);
  const Tensor all = empty({comm.world_size(), count}, on_host, where);
  std::copy(own_.begin(), own_.end(), mine.data<std::uint8_t>());
  comm.all_gather(all, mine, where);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<int> frozen_on;
    std::uint8_t is_present = 0;
    for (int rank = 0; rank < comm.world_size(); ++rank) {
      const std::uint8_t theirs = all.data<std::uint8_t>()[rank * count + i];
      if (theirs == kMark)
        frozen_on.push_back(rank);
      else
        is_present = std::max(is_present, theirs);
    }
    const auto num_frozen = static_cast<int>(frozen_on.size());
    RINGRAD_CHECK(num_frozen == 0 || num_frozen == comm.world_size(), CollectiveError, where,
                  scheme, ": a parameter must be frozen on all ranks or on none; got ",
                  name_of(static_cast<std::size_t>(i)), " frozen on ",
                  comm.rank_names().list(frozen_on), " alone");
    agreed_frozen_[static_cast<std::size_t>(i)] = num_frozen > 0;
    presence.data<std::uint8_t>()[i] = is_present;
  }
}

}  // namespace ringrad
