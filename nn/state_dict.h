// StateDict: tensors by name, as modules and optimizers keep them between steps.
//
//     "0.weight"  (784, 128) float32
//     "0.bias"    (128)      float32

#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace ringrad::nn {

using StateDict = std::map<std::string, Tensor>;

/// Throws: ValueError unless both have the same names, then ShapeError, DTypeError unless tensors of one name are
///         alike; the message, which `operation` opens, lists all differences
void check_same_layout(const char* operation, const StateDict& own, const StateDict& given,
                       Where where = Where::current());

/// Copies the values of `given` into the tensors of `own`, on whatever device each is. Throws as above, and has
/// then changed nothing.
void copy_state(const char* operation, const StateDict& own, const StateDict& given,
                Where where = Where::current());

}  // namespace ringrad::nn
