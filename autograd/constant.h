// Arguments of operators that are constants: their gradient is not computed.

#pragma once

#include "ringrad/autograd/function.h"

namespace ringrad {

/// Throws AutogradError if an operation is recorded and `argument`, which may be undefined,
/// requires a gradient: it would get none, and a user who trains it would not notice.
inline void check_constant(const char* operation, const char* name, const Tensor& argument,
                           Where where) {
  RINGRAD_CHECK(!needs_grad(argument), AutogradError, where, operation, ": ", name,
                " has no derivative here, so it must not require a gradient; got one of shape ",
                argument.shape(), " that does; pass its detach()");
}

}  // namespace ringrad
