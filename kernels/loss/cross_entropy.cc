#include "ringrad/kernels/loss/cross_entropy.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/indices.h"

namespace ringrad::kernels {
namespace {

Shape loss_shape(const Tensor& targets, const CrossEntropyOptions& options) {
  return options.reduction == Reduction::none ? targets.shape() : Shape{};
}

void check_arguments(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, Where where) {
  constexpr const char* kName = "cross_entropy";
  check_floating(kName, logits, where);
  check_same_device(kName, logits, targets, where);
  const bool batched = logits.dims() == 2;
  RINGRAD_CHECK(batched || logits.dims() == 1, ShapeError, where,
                "cross_entropy: logits must be (B, C) or (C); got ", logits.shape());
  const std::int64_t num_classes = logits.shape().back();
  RINGRAD_CHECK(num_classes > 0, ShapeError, where,
                "cross_entropy: there must be at least one class; got logits ", logits.shape());
  RINGRAD_CHECK(targets.shape() == (batched ? Shape{logits.shape()[0]} : Shape{}), ShapeError,
                where, "cross_entropy: targets must hold one class per row of logits; got targets ",
                targets.shape(), " and logits ", logits.shape());
  RINGRAD_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, ValueError, where,
                "cross_entropy: label_smoothing must be in [0, 1]; got ", options.label_smoothing);
  if (options.weight.defined()) {
    check_same_dtype(kName, logits, options.weight, where);
    check_same_device(kName, logits, options.weight, where);
    RINGRAD_CHECK(options.weight.shape() == Shape{num_classes}, ShapeError, where,
                  "cross_entropy: weight must hold one number per class; got weight ",
                  options.weight.shape(), " and logits ", logits.shape());
  }
  check_indices(kName, "targets", targets, num_classes, where, options.ignore_index);
}

// The arguments in the form that the kernels take: two axes, contiguous, targets int64, weights in
// the type of the arithmetic.
struct Prepared {
  Prepared(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
           Where where)
      : logits(contiguous(logits.dims() == 2 ? logits : view::unsqueeze(logits, 0, where), where)),
        targets(cast(contiguous(targets, where), DType::int64, where)),
        options(options) {
    if (options.weight.defined())
      this->options.weight =
          cast(contiguous(options.weight, where), math_dtype(logits.dtype()), where);
  }

  Tensor logits, targets;
  CrossEntropyOptions options;
};

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options, Where where) {
  check_arguments(logits, targets, options, where);
  const Prepared prepared(logits, targets, options, where);
  const Options loss_options{.dtype = logits.dtype(), .device = logits.device()};
  const Options math_options{.dtype = math_dtype(logits.dtype()), .device = logits.device()};
  const CrossEntropyResult result{
      empty(loss_shape(targets, options), loss_options, where),
      {empty(targets.shape(), math_options, where), empty(targets.shape(), math_options, where),
       empty({}, math_options, where)}};
  if (logits.device().is_cuda())
    cuda::cross_entropy(prepared.logits, prepared.targets, prepared.options, result, where);
  else
    cpu::cross_entropy(prepared.logits, prepared.targets, prepared.options, result);
  return result;
}

Tensor cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                              const Tensor& targets, const CrossEntropyStatistics& statistics,
                              const CrossEntropyOptions& options, Where where) {
  check_same_dtype("cross_entropy_backward", grad_output, logits, where);
  RINGRAD_CHECK(grad_output.shape() == loss_shape(targets, options), ShapeError, where,
                "cross_entropy_backward: grad_output must have the shape of the loss; got ",
                grad_output.shape(), " and ", loss_shape(targets, options));
  const Prepared prepared(logits, targets, options, where);
  const Tensor grad_logits =
      empty(logits.shape(), {.dtype = logits.dtype(), .device = logits.device()}, where);
  const Tensor grad = contiguous(grad_output, where);
  if (logits.device().is_cuda())
    cuda::cross_entropy_backward(grad, prepared.logits, prepared.targets, statistics,
                                 prepared.options, grad_logits, where);
  else
    cpu::cross_entropy_backward(grad, prepared.logits, prepared.targets, statistics,
                                prepared.options, grad_logits);
  return grad_logits;
}

CrossEntropyTargets cross_entropy_targets(const Tensor& logits, const Tensor& targets,
                                          const CrossEntropyOptions& options, Where where) {
  const Prepared prepared(logits, targets, options, where);
  const Options like_logits{.dtype = logits.dtype(), .device = logits.device()};
  Shape total = targets.shape();
  total.push_back(1);
  const CrossEntropyTargets result{empty(total, like_logits, where),
                                   empty(logits.shape(), like_logits, where)};
  if (logits.device().is_cuda())
    cuda::cross_entropy_targets(prepared.targets, prepared.options, result, where);
  else
    cpu::cross_entropy_targets(prepared.targets, prepared.options, result);
  return result;
}

}  // namespace ringrad::kernels
