// Whether operations are recorded: the flag of core/grad_mode.h, set for a scope.
//
//     { NoGradGuard guard;  y = net.forward(x); }      inference: no tape, no saved tensors

#pragma once

#include "ringrad/core/grad_mode.h"

namespace ringrad {

/// Sets the mode until the end of the scope.
class GradMode {
 public:
  explicit GradMode(bool enabled) : previous_(detail::grad_mode) { detail::grad_mode = enabled; }
  ~GradMode() { detail::grad_mode = previous_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

struct NoGradGuard : GradMode {
  NoGradGuard() : GradMode(false) {}
};

struct EnableGradGuard : GradMode {
  EnableGradGuard() : GradMode(true) {}
};

}  // namespace ringrad
