#include "ringrad/nn/optimizer/parameter_group.h"

#include <functional>

#include "ringrad/nn/module.h"

namespace ringrad::nn {

std::vector<Tensor> ParameterGroups::parameters() const {
  std::vector<Tensor> all;
  for (const ParameterGroup& group : groups_)
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

std::vector<ParameterGroup> decay_groups(const Module& module, double weight_decay) {
  ParameterGroup decayed{.weight_decay = weight_decay}, others{.weight_decay = 0};
  for (const Tensor& parameter : module.parameters())
    if (parameter.requires_grad())
      (parameter.dims() >= 2 ? decayed : others).parameters.push_back(parameter);
  std::vector<ParameterGroup> groups;
  for (ParameterGroup& group : {std::ref(decayed), std::ref(others)})
    if (!group.parameters.empty()) groups.push_back(std::move(group));
  return groups;
}

}  // namespace ringrad::nn
