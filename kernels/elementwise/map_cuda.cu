#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {

LinearWork linear_work(const Tensor& out, std::span<const Tensor* const> in,
                       std::span<const DType> dtypes, int V) {
  double bytes_per_element = 0;
  const auto fits = [&](const Tensor& x, DType dtype) {
    const std::size_t bytes = size_bytes(dtype);
    bytes_per_element += static_cast<double>(bytes);
    return x.dtype() == dtype && x.shape() == out.shape() && x.strides() == out.strides() &&
           is_aligned(x, bytes * static_cast<std::size_t>(V));
  };
  if (!fits(out, dtypes[0]) || !is_dense(out.shape(), out.strides())) return {};
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!fits(*in[i], dtypes[i + 1])) return {};
  const std::int64_t packs = (out.numel() + V - 1) / V;
  if (packs > std::int64_t{std::numeric_limits<std::int32_t>::max()} * kElementThreads) return {};
  return {packs, bytes_per_element * static_cast<double>(out.numel())};
}

Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  Strides strides = Shape::filled(shape.size(), 0);
  const int missing = shape.size() - x.dims();
  for (int axis = 0; axis < x.dims(); ++axis)
    if (x.shape()[axis] != 1) strides[axis + missing] = x.strides()[axis];
  return strides;
}

}  // namespace ringrad::kernels::cuda
