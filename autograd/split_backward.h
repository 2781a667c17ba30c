// A backward pass in two halves: first the gradients that the stage before waits for, later those of the weights, which
// nobody waits for until the optimizer steps. Zero-bubble pipelines fill their idle time with second halves.
//
//     forward   x ──┐                      first half    grad_x <── W^T grad_y <── grad_y     (kept: x, grad_y)
//                   ├─> linear ──> y
//               W ──┘                      second half   grad_W <── grad_y^T x
//
//     auto [grads, weights] = backward_inputs({&y, 1}, {&grad_y, 1}, {&x, 1});
//     ... send grads[0] ...
//     weights.accumulate();
//
// The first half walks only through nodes from which an input can be reached. Each of them has, by then, its whole
// gradient, since all of its consumers reach that input too. It calls a node's function with needs(i) false for the
// edges that lead to weights only, and keeps the function, with its gradient, for the second half; a node without such
// edges is done and freed. The second half calls those functions again for the other edges, and goes down from there
// as any backward pass does, in the same order.
//
// Guarantees, after both halves:
//   * Gradients are those of backward(), bit by bit. Each is delivered once: those of the inputs are returned, and no
//     input's grad() changes; all others, also of what lies below an input, are accumulated by the second half.
//   * Hooks of a tensor run once, in the half in which its gradient is complete, and what they return counts in both.
//     Completed-hooks of leaves and callbacks at the end of backward belong to the second half, like all that concerns
//     leaves: it is the pass whose gradients a DistributedDataParallel reduces.
//   * Each function computes a gradient once. What halves share is computed twice where that is cheap (ReLU's mask of a
//     fused linear layer); where all gradients come from one kernel (batch norm, layer norm) the first half computes
//     them, and only the small ones of the weights are kept.
//   * A checkpointed segment is computed again once, in the first half, and itself split.
// The graph is freed as by backward(), and nothing is recorded (no create_graph). What is kept meanwhile must not be
// changed in place: accumulate() finds out.
//
// Threads and streams: as for backward(); a WeightGradients may move to another thread together with its graph. Second
// halves may run in any order, each on the stream of its first half.
//
// Paper: Qi, Wan, Huang, Lin 2023, "Zero bubble pipeline parallelism", arXiv:2401.10241

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/tensor.h"

namespace ringrad {

struct SplitBackward;

/// The second half of a backward pass. Dropping it frees what it keeps.
class WeightGradients {
 public:
  WeightGradients() = default;
  WeightGradients(WeightGradients&& other) noexcept { *this = std::move(other); }
  WeightGradients& operator=(WeightGradients&& other) noexcept {
    roots_ = std::exchange(other.roots_, {});
    is_due_ = std::exchange(other.is_due_, false);
    return *this;
  }

  /// Accumulates into the leaves all that the first half has left.
  /// Throws:  AutogradError unless a first half has made this, and on a second call; if something kept was changed in
  ///          place since. It is used up then, too.
  void accumulate(Where where = Where::current());

  /// True until accumulate() is called.
  bool is_due() const { return is_due_; }
  /// How many gradients wait for the second half, 0 if there is nothing to compute.
  std::size_t num_roots() const { return roots_.size(); }

 private:
  friend class FirstHalf;
  friend SplitBackward backward_inputs(std::span<const Tensor> outputs,
                                       std::span<const Tensor> grad_outputs,
                                       std::span<const Tensor> inputs, Where where);

  // A gradient that has arrived at a node, whose turn is in the second half.
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

/// The first half: d(sum of outputs weighted by grad_outputs)/d(inputs). Without inputs all is left to the second.
///
/// Shapes:  grad_outputs[i] like outputs[i]; may be empty if every output has one element
/// Throws:  AutogradError if an output has no history or an input requires no gradient; as backward()
SplitBackward backward_inputs(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
                              std::span<const Tensor> inputs, Where where = Where::current());

}  // namespace ringrad
