// The operators of random programs, by name. compare.py maps the same names to PyTorch's.

#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::fuzz_torch {

using Operator =
    std::function<Tensor(const std::vector<Tensor>& inputs, const nlohmann::json& arguments)>;

const std::map<std::string, Operator>& operators();

Shape shape_of(const nlohmann::json& extents);

}  // namespace ringrad::fuzz_torch
