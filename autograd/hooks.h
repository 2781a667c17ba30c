// Hooks: user code that runs when a gradient arrives.

#pragma once

#include <functional>

#include "ringrad/autograd/node.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// remove() removes the hook; destroying the handle leaves the hook in place.
class HookHandle {
 public:
  HookHandle(Ref<Node> node, int id) : node_(std::move(node)), id_(id) {}
  void remove() { node_->remove_hook(id_); }

 private:
  Ref<Node> node_;
  int id_;
};

/// Calls `hook` with the complete gradient of x in every backward pass, before it is passed on. The
/// hook's result replaces the gradient; an undefined tensor keeps it. For a leaf that an
/// activation_checkpoint() uses, the hook sees each call's part separately.
/// Throws:  AutogradError if x needs no gradient
HookHandle register_hook(const Tensor& x, GradientHook hook, Where where = Where::current());

/// Calls `hook` with grad() after a backward pass has added to it, while earlier layers still run,
/// so communication can start here. An activation_checkpoint() adds its part separately, and other
/// parts may follow. Throws AutogradError unless x is a leaf that requires a gradient.
void register_completed_hook(const Tensor& x, std::function<void(const Tensor& grad)> hook,
                             Where where = Where::current());

}  // namespace ringrad
