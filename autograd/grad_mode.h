// Whether operations are recorded: the flag of core/grad_mode.h, set for a scope.
//
//     { NoGradGuard guard;  y = net.forward(x); }      inference: no tape, no saved tensors

#pragma once

#include "ringrad/core/base/scoped_value.h"
#include "ringrad/core/grad_mode.h"

namespace ringrad {

/// Sets the mode until the end of the scope.
struct GradMode : ScopedValue<bool> {
  explicit GradMode(bool enabled) : ScopedValue(detail::grad_mode, enabled) {}
};

struct NoGradGuard : GradMode {
  NoGradGuard() : GradMode(false) {}
};

struct EnableGradGuard : GradMode {
  EnableGradGuard() : GradMode(true) {}
};

}  // namespace ringrad
