// A backward pass in two halves: first the gradients that the previous stage waits for, later those
// of the weights, which only the optimizer needs. Zero-bubble pipelines fill idle time with second
// halves.
//
//     forward   x ──┐                first half    grad_x <── W^T grad_y <── grad_y
//                   ├─> linear ──> y                                  (kept: x, grad_y)
//               W ──┘                second half   grad_W <── grad_y^T x
//
//     auto [grads, weights] = backward_inputs({&y, 1}, {&grad_y, 1}, {&x, 1});
//     ... send grads[0] ...
//     weights.accumulate();
//
// The first half visits only nodes that lead to an input. Each has its whole gradient by then,
// since all its consumers lead to that input. The first half calls a node's function with needs(i)
// false for edges that lead to weights only, and keeps the function and its gradient; a node
// without such edges is freed. The second half calls the kept functions for the other edges and
// continues from there like any backward pass, in the same order.
//
// Threads and streams: as for backward(); a WeightGradients may move to another thread together
// with its graph. Second halves may run in any order, each on the stream of its first half.
//
// After both halves, all gradients equal those of backward(), bit by bit; README.md, "Backward in
// two halves", says what that means for hooks, shared parts and checkpoints.
//
// Paper: Qi, Wan, Huang, Lin 2023, "Zero bubble pipeline parallelism", arXiv:2401.10241

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ringrad/autograd/node.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

struct SplitBackward;

/// The second half of a backward pass. Destroying it frees what it keeps.
class WeightGradients {
 public:
  WeightGradients() = default;
  WeightGradients(WeightGradients&& other) noexcept { *this = std::move(other); }
  WeightGradients& operator=(WeightGradients&& other) noexcept {
    roots_ = std::exchange(other.roots_, {});
    is_due_ = std::exchange(other.is_due_, false);
    return *this;
  }

  /// Accumulates into the leaves everything that the first half has left.
  /// Throws:  AutogradError unless a first half has made this object, on a second call, and if
  ///          something kept was changed in place; the object is used up even then
  void accumulate(Where where = Where::current());

  /// True until accumulate() is called.
  bool is_due() const { return is_due_; }
  /// The number of gradients that wait for the second half; 0 if there is nothing to compute.
  std::size_t num_roots() const { return roots_.size(); }

 private:
  friend class FirstHalf;
  friend SplitBackward backward_inputs(std::span<const Tensor> outputs,
                                       std::span<const Tensor> grad_outputs,
                                       std::span<const Tensor> inputs, Where where);

  // A gradient that has arrived at a node that the second half will visit.
  struct Root {
    Edge edge;
    Tensor gradient;
    std::uint32_t version;
  };
  void add(Edge edge, Tensor gradient);

  std::vector<Root> roots_;
  bool is_due_ = false;
};

struct SplitBackward {
  std::vector<Tensor>
      grad_inputs;  ///< one per input; undefined where the outputs do not depend on it
  WeightGradients weights;
};

/// True while the first half of a split pass calls a backward function on this thread.
bool in_first_half();

/// Sets a callback that the second half calls, in the running node's turn, instead of its function.
/// It is for a function that runs its own backward pass, which must add to leaves exactly once, and
/// only in the second half.
/// REQUIRES: in_first_half()
void leave_to_second_half(std::function<void()> callback);

/// The first half: d(sum of outputs weighted by grad_outputs)/d(inputs). Without inputs, everything
/// is left to the second half.
///
/// Shapes:  grad_outputs[i] like outputs[i]; may be empty if every output has one element
/// Throws:  AutogradError if an output has no history or an input requires no gradient; as
///          backward()
SplitBackward backward_inputs(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
                              std::span<const Tensor> inputs, Where where = Where::current());

}  // namespace ringrad
