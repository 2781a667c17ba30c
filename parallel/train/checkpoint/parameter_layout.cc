#include "ringrad/parallel/train/checkpoint/parameter_layout.h"

#include "ringrad/parallel/train/tensor/tensor_parallel.h"

namespace ringrad {

std::map<std::string, ParameterLayout> layouts_of(const std::string& item, nn::Module& module,
                                                  Spread spread) {
  std::map<std::string, ParameterLayout> layouts;
  for (const auto& [path, tensor] : module.state_dict())
    layouts[path] = {item + '.' + path, tensor.shape(), whole_slice(tensor.shape()), spread};
  for_parallel_parameters(
      module, [&](const std::string& path, const ParallelLinear& layer, const Tensor& part) {
        const int axis = layer.split_axis(part);
        if (axis < 0) return;
        const Shape shape = layer.whole_shape(part);
        const std::int64_t extent = part.shape()[axis], begin = layer.part_index() * extent;
        layouts[path] = {item + '.' + path, shape, slice_along(shape, axis, begin, begin + extent),
                         Spread::sharded};
      });
  return layouts;
}

}  // namespace ringrad
