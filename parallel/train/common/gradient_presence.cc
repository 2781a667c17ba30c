#include "ringrad/parallel/train/common/gradient_presence.h"

namespace ringrad {

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

}  // namespace ringrad
