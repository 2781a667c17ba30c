// ParameterGroup: parameters that an optimizer treats alike.
//
//     nn::AdamW optimizer({{.parameters = weights, .weight_decay = 0.1},
//                          {.parameters = heads, .learning_rate_scale = 10}},
//                         {.learning_rate = 3e-4});
//     nn::AdamW optimizer(nn::decay_groups(net, 0.1), {.learning_rate = 3e-4});
//
// A group says how it differs from the optimizer's options. Its learning rate is a multiple of the
// optimizer's, so a schedule that sets the latter scales the rates of all groups.
//
// Groups change neither memory nor checkpoints: all parameters of one dtype and device share an
// arena, and state_dict() numbers them through all groups. A step is one pass per run of
// neighbouring parameters of one group. An arena that the optimizer makes has each group in one
// piece; one that a data-parallel wrapper made earlier keeps its order.

#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

class Module;

struct ParameterGroup {
  std::vector<Tensor> parameters = {};
  double learning_rate_scale = 1;           ///< times the optimizer's learning rate
  std::optional<double> weight_decay = {};  ///< default: that of the optimizer's options
};

/// What an optimizer is made for: groups, or a list of tensors, which is one group.
class ParameterGroups {
 public:
  // NOLINTBEGIN(google-explicit-constructor): an optimizer's first argument is any of these.
  ParameterGroups() = default;
  ParameterGroups(std::vector<Tensor> parameters)
      : groups_{{.parameters = std::move(parameters)}} {}
  ParameterGroups(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  ParameterGroups(std::initializer_list<Tensor> parameters)
      : ParameterGroups(std::vector<Tensor>(parameters)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : groups_(groups) {}
  // NOLINTEND(google-explicit-constructor)

  auto begin() const { return groups_.begin(); }
  auto end() const { return groups_.end(); }

  /// The parameters of all groups, in order.
  std::vector<Tensor> parameters() const;

 private:
  std::vector<ParameterGroup> groups_;
};

/// The module's trained parameters in two groups: those of at least two axes, such as weights of
/// linear layers, convolutions and embeddings, decay by `weight_decay`; biases and the parameters
/// of norms do not decay. Parameters that are frozen now are left out, as are empty groups.
std::vector<ParameterGroup> decay_groups(const Module& module, double weight_decay);

}  // namespace ringrad::nn
