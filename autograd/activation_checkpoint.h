// Activation checkpointing: keeps a segment's inputs and recomputes its activations when backward
// needs them.
//
//     forward    x --> [ f, not recorded ] --> y           nothing inside f is saved
//     backward   x --> [ f, recorded ] --> y', then back   one more forward, one segment at a time
//
// Paper: Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost",
// arXiv:1604.06174.

#pragma once

#include <functional>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// f(inputs), whose activations are recomputed in backward.
///
/// Gradients reach the inputs and every leaf that f uses, so a result of a floating dtype always
/// requires one. Each call's part of a leaf's gradient comes from a pass of its own: hooks of the
/// leaf (hooks.h) run once per call that uses it, and see that part.
///
/// Random numbers are the same in both runs, from whichever generator f draws them. f must be a
/// pure function of its inputs and leaves: a module that updates running statistics would update
/// them twice. Nothing that f uses may change in place before backward. An optimizer's step in
/// between, for example, would change weights.
///
/// In a split pass (split_backward.h), the first half runs f again and keeps what the leaves'
/// gradients need.
///
/// Throws:  AutogradError from backward with create_graph, which is not supported; from grad(),
///          which must not change leaves; if an operand of a differentiable operator in f, or an
///          index or a mask that such an operator saves, was changed in place since the call; if f
///          draws other or more numbers from a generator of its own
Tensor activation_checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs, Where where = Where::current());

}  // namespace ringrad
