#include "ringrad/core/tensor.h"

#include <optional>

#include "ringrad/core/grad_mode.h"
#include "ringrad/core/transfer.h"

namespace ringrad {

TensorImpl::TensorImpl(Ref<Storage> storage, std::int64_t offset, const Shape& shape,
                       const Strides& strides, DType dtype, Where where)
    : dtype(dtype),
      contiguous(ringrad::is_contiguous(shape, strides)),
      storage(std::move(storage)),
      offset(offset),
      numel(shape.numel()),
      made_at(where),
      shape(shape),
      strides(strides) {}

std::int64_t Tensor::size(std::int64_t axis, Where where) const {
  return shape(where)[normalize_axis("size", axis, dims(), where)];
}

void Tensor::throw_undefined(Where where) {
  throw ValueError(
      "tensor: it must be defined; got an undefined one, like the grad() of a leaf that no "
      "backward "
      "pass has reached",
      where);
}

void Tensor::throw_wrong_type(DType asked, Where where) const {
  throw DTypeError(concat("data: the element type must be the tensor's; got ", asked,
                          " for a tensor of ", dtype(), " made at ", to_string(made_at())),
                   where);
}

void Tensor::throw_not_on_host(Where where) const {
  throw DeviceError(concat("data: the tensor must be in CPU memory, as after to_host(); got ",
                           device(), " for a tensor made at ", to_string(made_at())),
                    where);
}

Scalar Tensor::scalar(Where where) const {
  RINGRAD_CHECK(numel(where) == 1, ShapeError, where,
                "item: the tensor must have exactly one element; got shape ", shape());
  const Tensor host = to_host(*this, where);
  return dispatch_dtype(dtype(), [&]<class T>() { return Scalar(*host.data<T>()); });
}

template <class T>
std::vector<T> Tensor::to_vector(Where where) const {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel(where)));
  const Tensor host = to_host(*this, where);
  dispatch_dtype(dtype(), [&]<class U>() {
    const U* from = host.data<U>();
    for_each_offset(shape(), strides(), [&](std::int64_t offset) {
      if constexpr (std::is_same_v<T, U>)
        values.push_back(from[offset]);
      else
        values.push_back(Scalar(from[offset]).to<T>(where));
    });
  });
  return values;
}

#define RINGRAD_INSTANTIATE(dtype, T) template std::vector<T> Tensor::to_vector(Where) const;
RINGRAD_FOR_EACH_DTYPE(RINGRAD_INSTANTIATE)
#undef RINGRAD_INSTANTIATE

void Tensor::set_data(const Tensor& data, Where where) const {
  RINGRAD_CHECK(shape(where) == data.shape(where), ShapeError, where,
                "set_data: shapes must be equal; got ", shape(), " and ", data.shape());
  check_same_dtype("set_data", *this, data, where);
  impl_->storage = data.storage();
  impl_->offset = data.offset();
  impl_->strides = data.strides();
  impl_->contiguous = data.is_contiguous();
  // A tensor that was saved earlier must not take the new memory for the old: this gives it a
  // version that no memory had before.
  storage()->mark_changed(where);
}

void Tensor::check_unrecorded(const char* operation, Where where) const {
  RINGRAD_CHECK(!requires_grad(where) || !grad_enabled(), AutogradError, where, operation,
                ": a tensor that requires a gradient must not be changed while operations are "
                "recorded; got ",
                impl_->history ? impl_->history->description()
                               : concat("a leaf made at ", to_string(made_at())),
                "; write y = y + x instead, or change it under NoGradGuard");
}

void Tensor::check_writable(const char* operation, Where where) const {
  check_unrecorded(operation, where);
  RINGRAD_CHECK(is_contiguous() || !repeats_elements(shape(), strides()), ValueError, where,
                operation,
                ": each element of the tensor written to must have its own place in memory; got "
                "shape ",
                shape(), " with strides ", strides());
}

DType promote(std::initializer_list<const Tensor*> operands) {
  std::optional<DType> with_axes, without;
  for (const Tensor* x : operands) {
    std::optional<DType>& group = x->dims() > 0 ? with_axes : without;
    group = group ? promote(*group, x->dtype()) : x->dtype();
  }
  if (!with_axes || !without) return with_axes ? *with_axes : *without;
  const auto rank = [](DType of) { return is_floating(of) ? 2 : is_integral(of) ? 1 : 0; };
  return rank(*without) > rank(*with_axes) ? *without : *with_axes;
}

}  // namespace ringrad
