// The engine: runs the tape backwards.
//
//     1. discover   list the nodes that the edges lead to from the roots,
//                   and count for each how many consumers will run
//     2. run        take the ready node with the largest sequence number, call it,
//                   and hand its results along its edges
//
// Nothing recurses, so a chain of a million nodes needs no more stack than one of ten. A leaf runs
// as soon as its last contribution has arrived, in the middle of the pass, so that its gradient can
// be communicated while earlier layers still compute.
//
// Backward passes may nest (a checkpointed segment runs one of its own inside of its node), and run in two halves
// (split_backward.h).

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "autograd/node.h"
#include "core/tensor.h"

namespace ringrad {

/// What a backward function sees: the gradients of its outputs, and where to put those of its
/// inputs.
class BackwardContext {
 public:
  /// For the node's own edges, or, in a half of a pass, for those of them that are in it.
  BackwardContext(Node& node, std::span<Edge> edges, std::vector<Tensor>& grad_inputs, Where where,
                  std::function<void()>* later = nullptr)
      : node_(node), edges_(edges), grad_inputs_(grad_inputs), where_(where), later_(later) {}

  /// d(root)/d(output k). Undefined only for an output that no gradient reached; with one output
  /// that cannot happen.
  const Tensor& grad_output(int k = 0) const { return node_.gradient(k); }

  /// True if input i wants a gradient. The two halves of a split pass (split_backward.h) call once each, and need
  /// different gradients.
  bool needs(int i) const { return static_cast<bool>(edges_[static_cast<unsigned>(i)].node); }

  /// Hands over d(root)/d(input i). An undefined tensor means zero. Ignored if input i wants none;
  /// but if all that the second half will need is set in the first, the second does not call again: so a function that
  /// computes several gradients in one go sets them all.
  void set(int i, Tensor grad_input);

  /// The place in which input i's gradient will end up anyway, to be written completely, e.g. a
  /// slice of a gradient arena that was cleared; an undefined tensor if there is none. Pass it to
  /// set() after writing: no copy is made.
  Tensor destination(int i) const;

  /// True in a first half.
  bool in_first_half() const { return later_ != nullptr; }
  /// What the second half calls, in this node's turn, instead of this function again: for one that runs a backward pass
  /// of its own, which must add to leaves once, and then only. REQUIRES: in_first_half()
  void later(std::function<void()> callback);

  /// The user's line that called backward.
  const Where& where() const { return where_; }

 private:
  Node& node_;
  std::span<Edge> edges_;
  std::vector<Tensor>& grad_inputs_;
  Where where_;
  std::function<void()>* later_;
};

/// The gradients d(sum of outputs weighted by grad_outputs)/d(inputs), without touching any grad().
/// An input that the outputs do not depend on gets an undefined tensor.
///
/// Shapes:  grad_outputs[i] like outputs[i]; may be empty if every output has one element
/// Throws:  AutogradError if an output has no history
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {},
                         Where where = Where::current());

/// The same for one output and one input.
Tensor grad(const Tensor& output, const Tensor& input, const Tensor& grad_output = {},
            BackwardOptions options = {}, Where where = Where::current());

/// Accumulates into the leaves what Tensor::backward does, from several roots at once.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
              BackwardOptions options = {}, Where where = Where::current());

/// Calls `callback` when the backward pass that runs now on this thread, the outermost one if they nest, has ended
/// without an error.
/// REQUIRES: called from a hook or a backward function.
void at_end_of_backward(std::function<void()> callback);

/// The sum of two gradients of one tensor; recorded if recording is on.
Tensor add_gradients(const Tensor& a, const Tensor& b, Where where);

/// The node whose backward function runs now on this thread; null outside of backward.
Node* running_node();

/// True inside of grad(), whose pass must not touch any leaf's gradient.
bool computing_grad();

/// Keeps x alive until that backward function has returned.
/// REQUIRES: running_node()
const Tensor& keep_while_node_runs(Tensor x);

}  // namespace ringrad
