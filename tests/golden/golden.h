// Golden values, computed by PyTorch: make_golden.py writes them and this reads them.

#pragma once

#include <map>
#include <string>

#include "ringrad/core/tensor.h"

namespace ringrad::testing {

/// The tensors of one case by name; floating ones are float32, whole numbers int64.
using GoldenCase = std::map<std::string, Tensor>;

/// All cases of tests/golden/<name>.json. Throws DataError if the file does not exist.
std::map<std::string, GoldenCase> read_golden(const std::string& name);

}  // namespace ringrad::testing
