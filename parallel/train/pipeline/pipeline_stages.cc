#include "ringrad/parallel/train/pipeline/pipeline_stages.h"

#include <algorithm>
#include <memory>
#include <span>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {

void PipelineStages::begin(const Tensor& x, const Tensor& target) {
  x_ = x;
  target_ = target;
  if (!grad_enabled()) return;
  losses_.clear();
  peak_kept_ = 0;
}

void PipelineStages::clear() {
  kept_.clear();
  num_kept_ = 0;
  x_ = target_ = {};
}

Tensor PipelineStages::rows_of(const Tensor& batch, const char* name, int b, Where where) const {
  RINGRAD_CHECK(batch.defined(), ValueError, where, name,
                " must be given on the rank of this stage; got an undefined tensor");
  RINGRAD_CHECK(batch.dims() > 0 && (batch.size(0) >= num_micro_batches_ || !grad_enabled()),
                ShapeError, where, name, " must have a row for each of ", num_micro_batches_,
                " micro-batches; got ", batch.shape());
  return view::slice(batch, 0, first_row(batch.size(0), b), first_row(batch.size(0), b + 1), 1,
                     where);
}

// A micro-batch's share of the target's rows.
double PipelineStages::weight_of(int b) const {
  const std::int64_t rows = target_.size(0);
  return static_cast<double>(first_row(rows, b + 1) - first_row(rows, b)) /
         static_cast<double>(rows);
}

void PipelineStages::forward(int s, int b, Where where) {
  Kept& kept = kept_[{s, b}];
  peak_kept_ = std::max(peak_kept_, ++num_kept_);
  if (is_first(s))
    kept.input = rows_of(x_, "x", b, where);
  else if (grad_enabled())
    kept.input.set_requires_grad(true, where);
  // In evaluation there may be fewer rows than micro-batches; an empty micro-batch passes
  // unchanged. The last one is empty only if the whole batch is, and tells its shape then.
  const bool is_empty = !grad_enabled() && b + 1 < num_micro_batches_ && kept.input.dims() > 0 &&
                        kept.input.size(0) == 0;
  kept.output = is_empty ? kept.input : call(*modules_.at(s), kept.input, where);
  if (!is_last(s) && !is_empty)
    check_floating("what a stage hands on", kept.output, where);
  else if (grad_enabled())
    add_loss(b, kept, where);
  if (!grad_enabled()) --num_kept_;
}

Tensor PipelineStages::call(nn::Module& module, const Tensor& input, Where where) const {
  if (!checkpoints_ || !grad_enabled()) return module(input, where);
  // The second run must leave running statistics as the first run left them. The function is copied
  // between the two.
  const auto run = [&module, where,
                    runs = std::make_shared<int>(0)](const std::vector<Tensor>& inputs) {
    struct Before {
      Tensor buffer, value;
      std::uint32_t version;
    };
    std::vector<Before> buffers;
    if (++*runs > 1)
      for (const auto& [name, buffer] : module.named_buffers())
        buffers.push_back({buffer, kernels::clone(buffer, where), buffer.version()});
    const Tensor output = module(inputs[0], where);
    for (const auto& [buffer, value, version] : buffers)  // those that stay may be saved
      if (buffer.version() != version) kernels::copy_(buffer, value, where);
    return output;
  };
  return activation_checkpoint(run, {input}, where);
}

// Replaces the stage's output by the loss.
void PipelineStages::add_loss(int b, Kept& kept, Where where) {
  const Tensor target = rows_of(target_, "target", b, where);
  RINGRAD_CHECK(kept.output.dims() > 0 && kept.output.size(0) == target.size(0), ShapeError, where,
                "target must have as many rows as the output; got ", target.shape(), " for ",
                kept.output.shape());
  const bool is_trained = kept.output.requires_grad();
  kept.output = loss_(kept.output, target);
  RINGRAD_CHECK(kept.output.numel() == 1, ShapeError, where, "the loss must have one element; got ",
                kept.output.shape());
  RINGRAD_CHECK(kept.output.requires_grad() || !is_trained, AutogradError, where,
                "the loss must be computed from the output; got one without history");
  losses_.resize(static_cast<std::size_t>(num_micro_batches_));
  losses_[static_cast<std::size_t>(b)] = kept.output.detach();
}

Tensor PipelineStages::mean_loss(Where where) const {
  const NoGradGuard guard;
  const Device device = losses_.front().device();
  const Tensor mean = zeros({}, {.dtype = DType::float32, .device = device}, where);
  for (std::size_t b = 0; b < losses_.size(); ++b)
    kernels::add_(mean, to(view::reshape(losses_[b], {}, where), DType::float32, where),
                  weight_of(static_cast<int>(b)), where);
  return mean;
}

// --- Backward ----------------------------------------------------------------------------------

void PipelineStages::begin_backward(int s, int b, Kept& kept, Where where) const {
  if (is_last(s))
    kept.grad_output = full(kept.output.shape(), weight_of(b),
                            {.dtype = kept.output.dtype(), .device = kept.output.device()}, where);
}

// True if a gradient has come for the output: a later stage may not have used it.
bool PipelineStages::has_gradient(const Kept& kept) const {
  return kept.output.requires_grad() && kept.grad_output.defined();
}

void PipelineStages::backward(int s, int b, Where where) {
  Kept& kept = kept_[{s, b}];
  begin_backward(s, b, kept, where);
  if (has_gradient(kept)) kept.output.backward(kept.grad_output, {}, where);
  if (!is_first(s)) kept.grad_input = kept.input.grad();
  kept.input = kept.output = kept.grad_output = {};
  --num_kept_;
}

void PipelineStages::backward_input(int s, int b, Where where) {
  Kept& kept = kept_[{s, b}];
  begin_backward(s, b, kept, where);
  if (has_gradient(kept)) {
    const std::span<const Tensor> inputs(&kept.input, is_first(s) ? 0 : 1);
    auto [grad_inputs, weights] =
        backward_inputs({&kept.output, 1}, {&kept.grad_output, 1}, inputs, where);
    if (!is_first(s)) kept.grad_input = std::move(grad_inputs[0]);
    kept.weights = std::move(weights);
  }
  kept.input = kept.output = kept.grad_output = {};
}

void PipelineStages::backward_weight(int s, int b, Where where) {
  WeightGradients weights = std::move(kept_[{s, b}].weights);
  if (weights.is_due()) weights.accumulate(where);
  --num_kept_;
}

}  // namespace ringrad
