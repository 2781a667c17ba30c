// The operators that random programs are made of, by name. compare.py has the same names for PyTorch's.

#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace ringrad::fuzz_torch {

using Operator =
    std::function<Tensor(const std::vector<Tensor>& inputs, const nlohmann::json& arguments)>;

const std::map<std::string, Operator>& operators();

Shape shape_of(const nlohmann::json& extents);

}  // namespace ringrad::fuzz_torch
