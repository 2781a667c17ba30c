#include "ringrad/autograd/loss/cross_entropy.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/movement.h"

namespace ringrad {
namespace {

// g (W p - q), composed of recorded operators. W, q and the divisor do not depend on the scores.
Tensor gradient_recorded(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                         const Tensor& divisor, const CrossEntropyOptions& options) {
  const auto [total, distribution] = kernels::cross_entropy_targets(logits, targets, options);
  const Tensor weighted = total * softmax(logits, -1) - distribution;
  const Tensor grad = grad_output / divisor;
  const bool per_row = options.reduction == Reduction::none;
  return to((per_row ? unsqueeze(grad, -1) : grad) * weighted, logits.dtype());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, Where where) {
  if (autocasting()) {
    CrossEntropyOptions wide = options;
    wide.weight = widened(options.weight, where);
    const Tensor scores = widened(logits, where);
    const Autocast off(DType::float32);
    return cross_entropy(scores, targets, wide, where);
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
                                ? gradient_recorded(grad, x.get(), targets.get(),
                                                    statistics.divisor, unpacked)
                                : kernels::cross_entropy_backward(grad, x.get(), targets.get(),
                                                                  statistics, unpacked));
           });
  return loss;
}

}  // namespace ringrad
