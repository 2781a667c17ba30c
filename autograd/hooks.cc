#include "ringrad/autograd/hooks.h"

namespace ringrad {

HookHandle register_hook(const Tensor& x, GradientHook hook, Where where) {
  const Edge edge = x.requires_grad(where) ? edge_to(x) : Edge();
  RINGRAD_CHECK(edge.node, AutogradError, where,
                "register_hook: the tensor must require a gradient; got one of shape ", x.shape(),
                " that does not");
  return HookHandle(edge.node, edge.node->add_hook(edge.output, std::move(hook)));
}

void register_completed_hook(const Tensor& x, std::function<void(const Tensor& grad)> hook,
                             Where where) {
  Leaf* leaf = x.requires_grad(where) ? leaf_of(x) : nullptr;
  RINGRAD_CHECK(
      leaf, AutogradError, where,
      "register_completed_hook: the tensor must be a leaf that requires a gradient; got one "
      "of shape ",
      x.shape());
  leaf->completed_hooks.add(std::move(hook));
}

}  // namespace ringrad
