#include "ringrad/parallel/train/data_parallel/error_memory.h"

#include <algorithm>
#include <utility>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"

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
  const Tensor fresh = zeros({static_cast<std::int64_t>(storage->bytes()) / width},
                             {.dtype = dtype, .device = gradients.device()}, where);
  if (left_.size() < loaded_.size()) {
    const Tensor loaded = std::exchange(loaded_[left_.size()], Tensor());
    RINGRAD_CHECK(loaded.shape() == fresh.shape() && loaded.dtype() == dtype, ShapeError, where,
                  "error memory: what was loaded must fit the gradients; got ", loaded.shape(), ' ',
                  loaded.dtype(), " for ", fresh.shape(), ' ', dtype);
    kernels::copy_(fresh, loaded, where);
  }
  left_.emplace_back(storage, fresh);
  return left_.back().second;
}

nn::StateDict ErrorMemory::state() const {
  nn::StateDict state;
  for (std::size_t i = 0; i < std::max(left_.size(), loaded_.size()); ++i)
    state.emplace(concat("left.", i), i < left_.size() ? left_[i].second : loaded_[i]);
  return state;
}

void ErrorMemory::check(const nn::StateDict& state, Where where) {
  for (std::size_t i = 0; i < state.size(); ++i)
    RINGRAD_CHECK(state.contains(concat("left.", i)), ValueError, where,
                  "error memory: names must be left.0, left.1 and so on; got none of number ", i);
}

void ErrorMemory::load(const nn::StateDict& state, Where where) {
  check(state, where);
  std::vector<Tensor> loaded;
  for (std::size_t i = 0; i < state.size(); ++i)
    loaded.push_back(kernels::clone(state.at(concat("left.", i)), where));
  loaded_ = std::move(loaded);
  left_.clear();
}

Tensor ErrorMemory::add(const Tensor& gradients, Where where) {
  const auto width = static_cast<std::int64_t>(size_bytes(gradients.dtype()));
  const std::int64_t begin = (gradients.raw_data() - whole_of(gradients)->data()) / width;
  const Tensor left = view::slice(left_of(gradients, where), 0, begin, begin + gradients.numel());
  kernels::add_(left, gradients, 1, where);
  return left;
}

}  // namespace ringrad
