// Whether operations are recorded: a flag per thread, set for a scope.
//
//     { NoGradGuard guard;  y = net.forward(x); }      inference: no tape, no saved tensors

#pragma once

namespace ringrad {

namespace detail {
inline thread_local bool grad_mode = true;
}

/// True if operations of this thread are recorded. Inside a backward function, true if the backward
/// pass itself is recorded (create_graph).
inline bool grad_enabled() { return detail::grad_mode; }

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
