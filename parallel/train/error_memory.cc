#include "parallel/train/error_memory.h"

#include "core/view.h"
#include "kernels/elementwise.h"

namespace ringrad {
namespace {

const Ref<Storage>& whole_of(const Tensor& x) {
  return x.storage()->whole() ? x.storage()->whole() : x.storage();
}

}  // namespace

const Tensor& ErrorMemory::left_of(const Tensor& gradients, Where where) {
  const Ref<Storage>& storage = whole_of(gradients);
  for (const auto& [known, left] : left_)
    if (known == storage) return left;
  const auto width = static_cast<std::int64_t>(size_bytes(gradients.dtype()));
  const DType dtype = gradients.dtype() == DType::float64 ? DType::float64 : DType::float32;
  left_.emplace_back(storage, zeros({static_cast<std::int64_t>(storage->bytes()) / width},
                                    {.dtype = dtype, .device = gradients.device()}, where));
  return left_.back().second;
}

Tensor ErrorMemory::add(const Tensor& gradients, Where where) {
  const auto width = static_cast<std::int64_t>(size_bytes(gradients.dtype()));
  const std::int64_t begin = (gradients.raw_data() - whole_of(gradients)->data()) / width;
  const Tensor left = view::slice(left_of(gradients, where), 0, begin, begin + gradients.numel());
  kernels::add_(left, gradients, 1, where);
  return left;
}

}  // namespace ringrad
