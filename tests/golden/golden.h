// Golden values: what PyTorch computes, written by make_golden.py and read here.

#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace ringrad::testing {

/// The tensors of one case by name; floating ones are float32, whole numbers int64.
using GoldenCase = std::map<std::string, Tensor>;

/// All cases of tests/golden/<name>.json. Throws DataError if the file is not there.
std::map<std::string, GoldenCase> read_golden(const std::string& name);

}  // namespace ringrad::testing
