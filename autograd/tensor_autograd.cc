// The members of Tensor that concern gradients; declared in core/tensor.h.

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/node.h"
#include "ringrad/core/tensor.h"
#include "ringrad/core/view.h"

namespace ringrad {

bool Tensor::is_leaf(Where where) const { return !get(where).history || node_of(*this)->is_leaf(); }

Tensor Tensor::set_requires_grad(bool requires_grad, Where where) const {
  check_floating("set_requires_grad", dtype(where), where);
  RINGRAD_CHECK(is_leaf(), AutogradError, where,
                "set_requires_grad: only a leaf can be changed; got the result of ",
                node_of(*this)->name(), " at ", to_string(node_of(*this)->where()),
                "; use detach()");
  impl_->requires_grad = requires_grad;  // the leaf stays, with its hooks and its gradient
  return *this;
}

Tensor Tensor::grad(Where where) const {
  if (!get(where).history || !is_leaf()) return {};
  auto* leaf = static_cast<Leaf*>(node_of(*this));
  leaf->settle();
  return leaf->grad;
}

void Tensor::set_grad(const Tensor& grad, Where where) const {
  Leaf* leaf = requires_grad(where) ? leaf_of(*this) : nullptr;
  RINGRAD_CHECK(leaf, AutogradError, where,
                "set_grad: the tensor must be a leaf that requires a gradient; got one of shape ",
                shape());
  if (grad.defined()) {
    RINGRAD_CHECK(!grad.is(*this), AutogradError, where,
                  "set_grad: the gradient must be another tensor, so that the leaf does not keep "
                  "itself alive; got the leaf itself");
    RINGRAD_CHECK(grad.shape() == shape(), ShapeError, where,
                  "set_grad: the gradient must have the shape of the tensor; got ", grad.shape(),
                  " for ", shape());
    check_same_dtype("set_grad", grad, *this, where);
    check_same_device("set_grad", grad, *this, where);
  }
  // A part of an arena that is another leaf's gradient stays that leaf's: this one has a view.
  const bool is_view = grad.defined() && lies_in_arena(grad) && !grad.is(leaf->grad);
  leaf->set(is_view ? view::alias(grad, where) : grad);
  leaf->is_average = false;
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options, Where where) const {
  const std::span<const Tensor> gradients(&gradient, gradient.defined() ? 1 : 0);
  ringrad::backward({this, 1}, gradients, options, where);
}

Tensor Tensor::detach(Where where) const { return view::alias(*this, where); }

}  // namespace ringrad
