// The engine: runs the tape backwards.
//
//     1. discover   list the nodes that the roots reach along edges,
//                   and count for each how many consumers will run
//     2. run        take the ready node with the largest sequence number, call it,
//                   and pass its results along its edges
//
// Nothing recurses, so a chain of a million nodes needs no more stack than one of ten. A leaf runs
// as soon as its last contribution arrives, in the middle of the pass, so its gradient can be
// communicated while earlier layers still compute.
//
// Backward passes may nest (a checkpointed segment runs its own pass inside its node), and may run
// in two halves (split_backward.h).

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ringrad/autograd/node.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// What a backward function gets: the gradients of its outputs, and a place for those of its
/// inputs.
class BackwardContext {
 public:
  /// For the node's own edges or, in one half of a split pass, for the edges that belong to that
  /// half.
  BackwardContext(Node& node, std::span<Edge> edges, std::vector<Tensor>& grad_inputs, Where where)
      : node_(node), edges_(edges), grad_inputs_(grad_inputs), where_(where) {}

  /// d(root)/d(output k). Undefined only if no gradient reached that output; this cannot happen for
  /// a node with one output.
  const Tensor& grad_output(int k = 0) const { return node_.gradient(k); }

  /// True if input i wants a gradient. The two halves of a split pass (split_backward.h) call the
  /// function once each and need different gradients.
  bool needs(int i) const { return static_cast<bool>(edges_[static_cast<unsigned>(i)].node); }

  /// Sets d(root)/d(input i). An undefined tensor means zero. Ignored if input i wants no gradient.
  /// Throws ShapeError, DTypeError or DeviceError for a gradient that is not like the input.
  /// There is one exception: if the first half of a split pass sets everything that the second half
  /// will need, the second half does not call the function again. A function that computes several
  /// gradients at once should therefore set them all.
  void set(int i, Tensor grad_input);

  /// The memory where input i's gradient will end up, such as a slice of a gradient arena that was
  /// cleared; an undefined tensor if there is none. Overwrite all of it, then pass it to set():
  /// this saves a copy.
  Tensor destination(int i) const;

  /// The user's line that called backward.
  const Where& where() const { return where_; }

 private:
  Node& node_;
  std::span<Edge> edges_;
  std::vector<Tensor>& grad_inputs_;
  Where where_;
};

/// The gradients d(sum of outputs weighted by grad_outputs)/d(inputs); no grad() changes. An input
/// that the outputs do not depend on gets an undefined tensor.
///
/// Shapes:  grad_outputs[i] like outputs[i]; may be empty if every output has one element
/// Throws:  AutogradError if an output has no history
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {},
                         Where where = Where::current());

/// The same for one output and one input.
Tensor grad(const Tensor& output, const Tensor& input, const Tensor& grad_output = {},
            BackwardOptions options = {}, Where where = Where::current());

/// Accumulates gradients into the leaves as Tensor::backward does, from several roots at once.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
              BackwardOptions options = {}, Where where = Where::current());

/// Calls `callback` when the backward pass that is running on this thread (the outermost one, if
/// they nest) ends without an error.
/// REQUIRES: called from a hook or a backward function.
void at_end_of_backward(std::function<void()> callback);

/// The sum of two gradients of one tensor; recorded if recording is on.
Tensor add_gradients(const Tensor& a, const Tensor& b, Where where);

/// The node whose backward function is running on this thread; null outside backward.
Node* running_node();

/// True inside grad(), whose pass must not touch any leaf's gradient.
bool computing_grad();

/// Keeps x alive until the running backward function has returned.
/// REQUIRES: running_node()
const Tensor& keep_while_node_runs(Tensor x);

}  // namespace ringrad
