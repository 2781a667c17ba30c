// AverageLoss: makes optimizers that compare losses decide alike on all ranks.
//
// Where ranks train one model, each computes the loss of its own part of the batch, and gradients
// are averaged. An optimizer that decides by the loss, as LBFGS's line search does, must then
// decide by the average as well. Otherwise ranks evaluate the loss at different points, and not
// equally often.

#pragma once

#include <functional>
#include <set>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

/// While it lives, these parameters' gradients are averages over ranks, and `average` gives the
/// average of a loss. All ranks must call `average`.
class AverageLoss {
 public:
  using Average = std::function<double(double loss, Where where)>;

  AverageLoss(const std::vector<Tensor>& parameters, Average average);
  ~AverageLoss();
  AverageLoss(const AverageLoss&) = delete;
  AverageLoss& operator=(const AverageLoss&) = delete;

  /// The average of the loss over the ranks that average the gradients of one of these parameters;
  /// the loss itself if there are none.
  static double of(double loss, const std::vector<Tensor>& parameters, Where where);

 private:
  std::set<const TensorImpl*> parameters_;
  Average average_;
};

}  // namespace ringrad::nn
