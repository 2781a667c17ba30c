// Whether the calling thread's operations are recorded. The tape sets this flag
// (autograd/grad_mode.h); core reads it to refuse writes that would falsify a gradient.

#pragma once

namespace ringrad {

namespace detail {
inline thread_local bool grad_mode = true;
}

/// True if operations of this thread are recorded. Inside a backward function, true if the backward
/// pass itself is recorded (create_graph).
inline bool grad_enabled() { return detail::grad_mode; }

}  // namespace ringrad
