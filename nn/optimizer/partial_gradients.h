// PartialGradients: a mark on parameters whose gradients on this rank are a part of the model's.
//
//     slice     ColumnParallelLinear and its like: each rank has a slice of the tensor
//     stage     Pipeline: other ranks have the model's other parameters
//     summand   ShardedOptimizer: its step averages the gradients, which until then differ by rank
//
// Schemes that split a model mark its parameters. A function that needs the model's whole
// gradients, for example for their norm, then refuses to take a part for the whole. ModelGradients
// (parallel/train/gradients/model_gradients.h) takes the norm over all ranks.

#pragma once

#include <string>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

enum class PartOf { slice, stage, summand };

/// Marks the parameters as long as it lives. A parameter may have several marks.
class PartialGradients {
 public:
  /// `scheme` and the parameters' names are for messages.
  PartialGradients(PartOf part, std::string scheme, std::vector<NamedTensor> parameters);
  ~PartialGradients();
  PartialGradients(const PartialGradients&) = delete;
  PartialGradients& operator=(const PartialGradients&) = delete;

 private:
  std::vector<NamedTensor> parameters_;  // keeps them: another tensor must not get their identity
  std::string scheme_;
};

/// Throws ValueError, naming parameter and scheme, if a parameter has a mark that is not in
/// `allowed`. `rule` opens the message: "clip_grad_norm: gradients must be whole on this rank".
void check_not_partial(const char* rule, const std::vector<Tensor>& parameters,
                       const std::vector<PartOf>& allowed, Where where);

}  // namespace ringrad::nn
