#include "ringrad/nn/captured_step.h"

#include <cstdint>
#include <utility>

#include "ringrad/kernels/copy/copy.h"

namespace ringrad::nn {

CapturedStep::CapturedStep(Function function, std::vector<Tensor> fixed)
    : function_(std::move(function)), fixed_(std::move(fixed)) {
  for (const Tensor& tensor : fixed_)
    if (tensor.device().is_cuda()) device_ = tensor.device();
}

std::vector<Tensor> CapturedStep::operator()(const std::vector<Tensor>& inputs, Where where) {
  if (device_.is_cpu()) return function_(inputs);
  const bool first = !std::exchange(called_, true);
  if (first) {
    for (const Tensor& input : inputs)
      inputs_.push_back(
          empty(input.shape(where), {.dtype = input.dtype(), .device = device_}, where));
  }
  check_inputs(inputs, where);
  for (std::size_t i = 0; i < inputs.size(); ++i) kernels::copy_(inputs_[i], inputs[i], where);
  if (first) return function_(inputs_);
  if (!capture_) record(where);
  check_fixed(where);
  capture_->replay(where);
  for (const Tensor& tensor : changed_) tensor.storage()->mark_changed(where);
  return results_;
}

void CapturedStep::record(Where where) {
  std::vector<std::uint32_t> versions;
  for (const Tensor& tensor : fixed_) versions.push_back(tensor.version());
  auto capture = std::make_unique<Capture>(device_, where);
  capture->record(
      [&] {
        results_ = function_(inputs_);
        // The tape of the captured step is no longer needed, and would keep its memory.
        for (Tensor& result : results_) result = result.detach();
      },
      where);
  for (std::size_t i = 0; i < fixed_.size(); ++i) {
    addresses_.push_back(fixed_[i].raw_data());
    if (fixed_[i].version() != versions[i]) changed_.push_back(fixed_[i]);
  }
  capture_ = std::move(capture);
}

void CapturedStep::check_inputs(const std::vector<Tensor>& inputs, Where where) const {
  RINGRAD_CHECK(inputs.size() == inputs_.size(), ValueError, where,
                "captured step: it must get as many inputs as in its first call; got ",
                inputs.size(), " after ", inputs_.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RINGRAD_CHECK(inputs[i].shape(where) == inputs_[i].shape(), ShapeError, where,
                  "captured step: input ", i, " must keep its shape; got ", inputs[i].shape(),
                  " after ", inputs_[i].shape());
    RINGRAD_CHECK(inputs[i].dtype() == inputs_[i].dtype(), DTypeError, where,
                  "captured step: input ", i, " must keep its dtype; got ", inputs[i].dtype(),
                  " after ", inputs_[i].dtype());
  }
}

void CapturedStep::check_fixed(Where where) const {
  for (std::size_t i = 0; i < fixed_.size(); ++i)
    RINGRAD_CHECK(fixed_[i].raw_data() == addresses_[i], ValueError, where,
                  "captured step: fixed tensor ", i,
                  " must stay where it was when the step was captured; got moved");
}

}  // namespace ringrad::nn
