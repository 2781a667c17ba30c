#include "ringrad/autograd/loss/cross_entropy.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/constant.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/index/indices.h"

namespace ringrad {
namespace {

// Scores (B, C, ...) as (B * ..., C): a view of scores in channels_last, as a convolution returns
// them. Targets of another shape are left as they are, so that the checks name it.
Tensor classes_last(const Tensor& scores, Where where) {
  Shape order{0};
  for (int axis = 2; axis < scores.dims(); ++axis) order.push_back(axis);
  order.push_back(1);
  const std::int64_t C = scores.shape()[1];
  return reshape(permute(scores, order, where), {C == 0 ? 0 : scores.numel() / C, C}, where);
}

void check_targets_of_images(const char* operation, const Tensor& scores, const Tensor& targets,
                             Where where) {
  Shape expected{scores.shape()[0]};
  for (int axis = 2; axis < scores.dims(); ++axis) expected.push_back(scores.shape()[axis]);
  RINGRAD_CHECK(targets.shape(where) == expected, ShapeError, where, operation,
                ": targets must be ", expected, " for scores ", scores.shape(), "; got ",
                targets.shape());
}

}  // namespace

// g (W p - q). W, q and the divisor do not depend on the scores.
Tensor detail::cross_entropy_gradient(const Tensor& grad_output, const Tensor& logits,
                                      const Tensor& targets, const Tensor& divisor,
                                      const CrossEntropyOptions& options) {
  const auto [total, distribution] = kernels::cross_entropy_targets(logits, targets, options);
  const Tensor weighted = total * softmax(logits, -1) - distribution;
  const Tensor grad = grad_output / divisor;
  const bool per_row = options.reduction == Reduction::none;
  // An ignored row has no gradient, even if grad is infinite.
  const Tensor row_grad = where(total == 0, 0, per_row ? unsqueeze(grad, -1) : grad);
  return to(row_grad * weighted, logits.dtype());
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, Where where) {
  check_constant("cross_entropy", "weight", options.weight, where);
  if (logits.dims(where) > 2) {
    check_targets_of_images("cross_entropy", logits, targets, where);
    const Tensor loss = cross_entropy(classes_last(logits, where),
                                      reshape(targets, {targets.numel()}, where), options, where);
    return options.reduction == Reduction::none ? reshape(loss, targets.shape(), where) : loss;
  }
  if (autocasting()) {
    CrossEntropyOptions wide = options;
    wide.weight = widened(options.weight, where);
    return with_widened(
        where, [&](auto& scores) { return cross_entropy(scores, targets, wide, where); }, logits);
  }
  auto [loss, statistics] = kernels::cross_entropy(logits, targets, options, where);
  if (needs_grad(logits))
    record("cross_entropy", where, loss, {&logits},
           [x = save(logits), targets = save(targets), weight = save(options.weight),
            statistics = statistics, saved = options](BackwardContext& context) {
             CrossEntropyOptions unpacked = saved;
             unpacked.weight = weight.get();
             const Tensor& grad = context.grad_output();
             context.set(0, grad_enabled()
                                ? detail::cross_entropy_gradient(grad, x.get(), targets.get(),
                                                                 statistics.divisor, unpacked)
                                : kernels::cross_entropy_backward(grad, x.get(), targets.get(),
                                                                  statistics, unpacked));
           });
  return loss;
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets,
                const NLLLossOptions& options, Where where) {
  constexpr const char* kName = "nll_loss";
  const Tensor x = autocasting() ? widened(log_probabilities, where) : log_probabilities;
  check_floating(kName, x, where);
  if (x.dims() > 2) {
    check_targets_of_images(kName, x, targets, where);
    const Tensor loss = nll_loss(classes_last(x, where), reshape(targets, {targets.numel()}, where),
                                 options, where);
    return options.reduction == Reduction::none ? reshape(loss, targets.shape(), where) : loss;
  }
  RINGRAD_CHECK(x.dims() >= 1, ShapeError, where,
                "nll_loss: log_probabilities must be (B, C), (B, C, ...) or (C); got ", x.shape());
  check_same_device(kName, x, targets, where);
  RINGRAD_CHECK(targets.shape() == (x.dims() == 2 ? Shape{x.shape()[0]} : Shape{}), ShapeError,
                where, "nll_loss: targets must hold one class per row; got targets ",
                targets.shape(), " and log_probabilities ", x.shape());
  const std::int64_t C = x.shape().back();
  kernels::check_indices(kName, "targets", targets, C, where, options.ignore_index);
  const Tensor counts = targets != options.ignore_index;
  const Tensor classes = ringrad::where(counts, targets, 0);
  const DType math = math_dtype(x.dtype());  // sums may leave the range of 16 bits
  const Tensor chosen = to(squeeze(gather(x, -1, unsqueeze(classes, -1)), {-1}), math);
  Tensor weights = to(counts, math);
  if (options.weight.defined()) {
    check_same_dtype(kName, x, options.weight, where);
    RINGRAD_CHECK(options.weight.shape() == Shape{C}, ShapeError, where,
                  "nll_loss: weight must hold one number per class; got weight ",
                  options.weight.shape(), " and log_probabilities ", x.shape());
    weights =
        weights * reshape(index_select(options.weight, 0, reshape(classes, {-1})), targets.shape());
  }
  const Tensor losses = ringrad::where(counts, -chosen * weights, 0);  // even of -inf
  if (options.reduction == Reduction::none) return to(losses, x.dtype());
  const Tensor total = sum(losses);
  return to(options.reduction == Reduction::sum ? total : total / sum(weights), x.dtype());
}

}  // namespace ringrad
