// The operators of random programs, by name. peer.py maps the same names to PyTorch's. Names are
// those of docs/operators.md; further names, such as add_number, are other forms of one.

#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::fuzz_torch {

/// Makes the result of a step from earlier tensors and from the arguments that the step names.
using Operator =
    std::function<Tensor(const std::vector<Tensor>& inputs, const nlohmann::json& arguments)>;
using Operators = std::map<std::string, Operator>;

/// All of those below.
const Operators& operators();

Operators elementwise_operators();
Operators movement_operators();   ///< also makers of tensors, and operators in place
Operators index_operators();      ///< also those of order
Operators reduction_operators();  ///< also products and linear algebra
Operators layer_operators();      ///< convolution, windows, normalization, attention
Operators loss_operators();
Operators training_operators();  ///< hooks, checkpointed segments, collectives, random fills

}  // namespace ringrad::fuzz_torch
