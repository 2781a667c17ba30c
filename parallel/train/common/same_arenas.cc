#include "ringrad/parallel/train/common/same_arenas.h"

namespace ringrad {

std::vector<nn::ParameterArena> make_same_arenas(const std::vector<Tensor>& parameters,
                                                 Communicator& comm,
                                                 const nn::MakeGradients& make_gradients,
                                                 Where where) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const Tensor seen = empty({count}, {.dtype = DType::uint8, .device = Device()}, where);
  auto* const flags = seen.data<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i)
    flags[i] = nn::is_seen(parameters[static_cast<std::size_t>(i)]);
  if (count > 0 && comm.world_size() > 1) comm.all_reduce(seen, ReduceOp::max, where);
  return nn::make_arenas(parameters, make_gradients, where,
                         std::vector<bool>(flags, flags + count));
}

}  // namespace ringrad
