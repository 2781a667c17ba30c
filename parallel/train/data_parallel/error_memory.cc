#include "ringrad/parallel/train/data_parallel/error_memory.h"

#include <string>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

const Ref<Storage>& whole_of(const Tensor& x) {
  return x.storage()->whole() ? x.storage()->whole() : x.storage();
}

}  // namespace

const Tensor& ErrorMemory::all_of(const Tensor& gradients, Where where) {
  const Ref<Storage>& storage = whole_of(gradients);
  for (const auto& [known, left] : left_)
    if (known == storage) return left;
  const auto width = static_cast<std::int64_t>(size_bytes(gradients.dtype()));
  const DType dtype = gradients.dtype() == DType::float64 ? DType::float64 : DType::float32;
  left_.emplace_back(storage, zeros({static_cast<std::int64_t>(storage->bytes()) / width},
                                    {.dtype = dtype, .device = gradients.device()}, where));
  return left_.back().second;
}

// Names are those of parameters, since arenas and buckets depend on what the program did before.
Tensor ErrorMemory::left_of(const GradientBucket& bucket, Where where) {
  const Tensor& gradients = bucket.gradients;
  const auto width = static_cast<std::int64_t>(size_bytes(gradients.dtype()));
  const std::int64_t begin = (gradients.raw_data() - whole_of(gradients)->data()) / width;
  const Tensor left = view::slice(all_of(gradients, where), 0, begin, begin + gradients.numel());
  for (const auto& [parameter, shape, offset] : bucket.parameters) {
    const std::string name = "left." + parameter;
    const Tensor part = view::slice(left, 0, offset, offset + shape.numel());
    parts_.insert_or_assign(name, part);
    const auto loaded = loaded_.find(name);
    if (loaded == loaded_.end()) continue;
    const Tensor& value = loaded->second;
    RINGRAD_CHECK(value.shape() == part.shape() && value.dtype() == part.dtype(), ShapeError, where,
                  "error memory: what was loaded must fit the gradients; got ", value.shape(), ' ',
                  value.dtype(), " for ", part.shape(), ' ', part.dtype(), " of ", parameter);
    kernels::copy_(part, value, where);
    loaded_.erase(loaded);
  }
  return left;
}

nn::StateDict ErrorMemory::state() const {
  nn::StateDict state = parts_;
  state.insert(loaded_.begin(), loaded_.end());
  return state;
}

void ErrorMemory::check(const nn::StateDict& state, Where where) const {
  for (const auto& [name, tensor] : state)
    RINGRAD_CHECK(name.starts_with("left."), ValueError, where,
                  "error memory: names must be left.<parameter>; got ", name);
}

void ErrorMemory::load(const nn::StateDict& state, Where where) {
  check(state, where);
  nn::StateDict loaded;
  for (const auto& [name, tensor] : state) loaded.emplace(name, kernels::clone(tensor, where));
  loaded_ = std::move(loaded);
  parts_.clear();
  left_.clear();
}

}  // namespace ringrad
