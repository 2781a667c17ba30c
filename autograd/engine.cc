#include "ringrad/autograd/engine.h"

#include <utility>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/pass.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {

namespace {

// Otherwise a later sum would broadcast it, or a kernel read beyond its end.
void check_gradient(const Tensor& grad, const Node::Output& input, const Node& node, int i) {
  RINGRAD_CHECK(grad.shape() == input.shape, ShapeError, node.where(), "backward of ", node.name(),
                ": the gradient of input ", i, " must have the input's shape; got ", grad.shape(),
                " for ", input.shape);
  check_same_dtype("backward", grad.dtype(), input.dtype, node.where());
  check_same_device("backward", grad.device(), input.device, node.where());
}

}  // namespace

Tensor BackwardContext::destination(int i) const {
  Node* node = edges_[static_cast<unsigned>(i)].node.get();
  if (!node || !node->is_leaf()) return {};
  auto& leaf = static_cast<Leaf&>(*node);
  return Pass::innermost()->may_write_into(leaf) ? leaf.grad : Tensor();
}

void BackwardContext::set(int i, Tensor grad_input) {
  const auto at = static_cast<unsigned>(i);
  Node* node = edges_[at].node.get();
  if (!node && !Pass::innermost()->keeps_all_gradients()) return;
  if (node && grad_input.defined())
    check_gradient(grad_input, node->output(edges_[at].output), node_, i);
  if (node && node->is_leaf() && grad_input.defined()) {
    auto& leaf = static_cast<Leaf&>(*node);
    // The function wrote into the destination, so the memory now holds the leaf's gradient.
    if (leaf.overwrite && grad_input.is(leaf.grad)) leaf.overwrite = false;
  }
  grad_inputs_[at] = std::move(grad_input);
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
              BackwardOptions options, Where where) {
  Pass pass(options, where);
  pass.add_roots(outputs, grad_outputs);
  pass.run();
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, BackwardOptions options,
                         Where where) {
  std::vector<Tensor> results(inputs.size());
  Pass pass(options, where);
  pass.add_roots(outputs, grad_outputs);
  pass.take_gradients("grad", inputs, results);
  pass.run();
  return results;
}

Tensor grad(const Tensor& output, const Tensor& input, const Tensor& grad_output,
            BackwardOptions options, Where where) {
  const std::span<const Tensor> grads(&grad_output, grad_output.defined() ? 1 : 0);
  return grad({&output, 1}, {&input, 1}, grads, options, where).front();
}

void at_end_of_backward(std::function<void()> callback) {
  RINGRAD_ASSERT(Pass::innermost());
  Pass* pass = Pass::innermost();
  while (pass->outer()) pass = pass->outer();
  pass->add_callback(std::move(callback));
}

Tensor add_gradients(const Tensor& a, const Tensor& b, Where where) {
  Tensor sum = kernels::binary<ops::Add>(a, b, where);
  if (needs_grad(a, b))
    record("add_gradients", where, sum, {&a, &b}, [](BackwardContext& context) {
      context.set(0, context.grad_output());
      context.set(1, context.grad_output());
    });
  return sum;
}

Node* running_node() { return Pass::running(); }

bool computing_grad() {
  for (const Pass* pass = Pass::innermost(); pass; pass = pass->outer())
    if (pass->spares_leaves()) return true;
  return false;
}

const Tensor& keep_while_node_runs(Tensor x) {
  RINGRAD_ASSERT(Pass::running());
  return Pass::innermost()->keep_while_node_runs(std::move(x));
}

}  // namespace ringrad
