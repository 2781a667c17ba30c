#include "ringrad/data/text/text_dataset.h"

#include <algorithm>
#include <utility>

namespace ringrad {

TextDataset::TextDataset(Tensor tokens, std::int64_t window, std::int64_t stride, Where where)
    : tokens_(std::move(tokens)), window_(window), stride_(stride == 0 ? window : stride) {
  RINGRAD_CHECK(window > 0 && stride >= 0, ValueError, where,
                "TextDataset: window must be positive and stride not negative; got ", window,
                " and ", stride);
  RINGRAD_CHECK(tokens_.dtype(where) == DType::int64, DTypeError, where,
                "TextDataset: tokens must be int64; got ", tokens_.dtype());
  RINGRAD_CHECK(tokens_.device().is_cpu(), DeviceError, where,
                "TextDataset: tokens must be on a CPU; got ", tokens_.device());
  RINGRAD_CHECK(tokens_.dims() == 1 && tokens_.is_contiguous() && tokens_.numel() > window,
                ShapeError, where,
                "TextDataset: tokens must be one row, longer than the window of ", window, "; got ",
                tokens_.shape());
  size_ = (tokens_.numel() - 1 - window_) / stride_ + 1;
}

Batch TextDataset::fetch(std::span<const std::int64_t> indices, Where where) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const Options options{.dtype = DType::int64, .device = Device()};
  Batch batch{{empty({count, window_}, options, where), empty({count, window_}, options, where)}};
  auto* input = batch.tensors[0].data<std::int64_t>();
  auto* target = batch.tensors[1].data<std::int64_t>();
  for (const std::int64_t index : indices) {
    RINGRAD_CHECK(index >= 0 && index < size_, IndexError, where,
                  "TextDataset: indices must be in [0, ", size_, "); got ", index);
    const std::int64_t* first = tokens_.data<std::int64_t>() + index * stride_;
    input = std::copy_n(first, window_, input);
    target = std::copy_n(first + 1, window_, target);
  }
  return batch;
}

}  // namespace ringrad
