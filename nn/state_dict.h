// StateDict: tensors by name, as modules and optimizers keep them between steps.
//
//     "0.weight"  (784, 128) float32
//     "0.bias"    (128)      float32

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

using StateDict = std::map<std::string, Tensor>;

/// A number as an entry: int64 or float64, in CPU memory.
Tensor state_number(std::int64_t value);
Tensor state_number(double value);

/// Copies that share no memory with `state` and need no gradient: what is to be kept while training
/// goes on, since state_dict() gives the tensors that training changes.
StateDict clone_state(const StateDict& state, Where where = Where::current());

/// Throws:  ValueError unless both have the same names, then ShapeError, DTypeError unless tensors
///          of one name have one shape and dtype; the message starts with `operation` and lists all
///          differences; ValueError, naming the tensor, for an undefined one, and for one of `own`
///          that cannot be written because its elements share one place, as after expand()
void check_same_layout(const char* operation, const StateDict& own, const StateDict& given,
                       Where where = Where::current());

/// Copies the values of `given` into the tensors of `own`. Each tensor may be on any device; one of
/// `given` may also be in `own` under another name. Throws as above, and then changes nothing.
void copy_state(const char* operation, const StateDict& own, const StateDict& given,
                Where where = Where::current());

}  // namespace ringrad::nn
