// LBFGS: for small problems whose whole loss can be computed again and again.
//
//     nn::LBFGS optimizer(net.parameters());
//     for (int round = 0; round < 10; ++round)
//       std::cout << optimizer.step([&] { return mse_loss(net(x), y); }) << '\n';
//
// The last changes of parameters s and of gradients y give an estimate of the inverse Hessian. A
// step goes along the product of that estimate and the gradient (two loops over the pairs). A line
// search chooses the length (nn/optimizer/line_search.h). Losses must be exact: no dropout, no new
// batch within a step.
//
// DistributedDataParallel averages the gradients. LBFGS then compares averages of the ranks' losses
// as well (average_loss.h), so all ranks take the same steps. The average gradient must be the
// gradient of the average loss: either the ranks' parts of the batch are equally large, or a rank's
// loss is its sum times n / global batch.
//
// Not an Optimizer: one step evaluates the loss many times. It has no state dict; a run that
// resumes begins with the gradient's direction.

#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/nn/optimizer/line_search.h"

namespace ringrad::nn {

struct LBFGSOptions {
  double learning_rate = 1;  ///< where each line search begins
  int max_iterations = 20;   ///< directions per step
  int max_evaluations = 25;  ///< of the loss per step; the last line search may exceed it by one
  double gradient_tolerance = 1e-7;  ///< ends a step: largest element of the gradient
  double change_tolerance = 1e-9;    ///< ends a step: change of the loss or of an element
  std::size_t history = 100;  ///< pairs (s, y), each as large as two copies of the parameters
};

/// Throws:  ValueError for no parameters, parameters that PartialGradients marks, options that are
///          not finite and positive (tolerances may be 0), or parameters of several dtypes or
///          devices; as make_arenas
/// Book:    Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithm 7.4
class LBFGS {
 public:
  explicit LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options = {},
                 Where where = Where::current());
  // Moves only: a copy would train the same parameters by what it remembers of other moves.
  LBFGS(LBFGS&&) = default;
  LBFGS& operator=(LBFGS&&) = default;

  /// Improves the parameters until a limit of the options is reached. `loss` computes the loss
  /// from the current parameters; step() clears the gradients and runs the backward passes.
  /// Returns the loss before the step: under DistributedDataParallel, the ranks' average. Ends
  /// where the gradient is not finite. If `loss` throws, the parameters are those from which the
  /// running line search began.
  double step(const std::function<Tensor()>& loss, Where where = Where::current());

  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  // The state between iterations; all tensors have the layout of values().
  struct Pair {
    Tensor step, gradient_change;  // s, y
    double curvature;              // s . y
  };

  struct Move {
    Tensor gradient;  // where it began
    Tensor change;    // of the parameters
  };

  Tensor values() const;
  void set_values(const Tensor& start, const Tensor& direction, double step, Where where) const;
  LineTrial evaluate(const std::function<Tensor()>& loss, const Tensor& start,
                     const Tensor& direction, double step, Where where);
  void forget_unless_same_are_trained();
  void remember(const Tensor& gradient);
  Tensor direction_at(const Tensor& gradient) const;

  std::vector<Tensor> parameters_;
  LBFGSOptions options_;
  std::vector<ParameterArena> arenas_;  // of one dtype and device
  std::vector<bool> trained_;           // which parameters, at the last step
  std::deque<Pair> pairs_;
  std::optional<Move> last_move_;  // until the gradient at its end has been seen
  bool has_moved_ = false;
};

}  // namespace ringrad::nn
