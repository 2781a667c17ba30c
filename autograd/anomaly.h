// DetectAnomaly: an error at the first NaN, in place of a loss that is NaN some steps later.
//
//     { DetectAnomaly guard;  loss(net(x)).backward(); }      slower: every result is read again
//
// An operation whose result holds a NaN throws, naming the user's line. So does a backward pass, at
// the first operation that computes a gradient with a NaN; the error names the line of the forward
// call. Results that need no gradient are not checked. set_history (node.cc) checks results, and
// Pass::call (pass.h) gradients.

#pragma once

#include <span>

#include "ringrad/autograd/node.h"
#include "ringrad/core/base/scoped_value.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

namespace detail {
inline thread_local bool detects_anomaly = false;

/// Throw AutogradError if a tensor holds a NaN: the result of `node`, or what its function has
/// computed in a backward pass that the user called at `where`.
void check_result(const Tensor& y, const Node& node);
void check_gradients(std::span<const Tensor> grad_inputs, const Node& node, Where where);
}  // namespace detail

/// Switches the checks of this thread on, or off, until the end of the scope.
struct DetectAnomaly : ScopedValue<bool> {
  explicit DetectAnomaly(bool enabled = true) : ScopedValue(detail::detects_anomaly, enabled) {}
};

}  // namespace ringrad
