#include "ringrad/data/tensor_dataset.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "ringrad/core/view.h"

namespace ringrad {
namespace {

void copy_contiguous_rows(const Tensor& x, std::span<const std::int64_t> indices, Tensor& out) {
  const std::size_t row_bytes =
      static_cast<std::size_t>(out.numel() / out.shape()[0]) * size_bytes(x.dtype());
  if (row_bytes == 0) return;
  const auto stride_bytes = x.strides()[0] * static_cast<std::int64_t>(size_bytes(x.dtype()));
  std::byte* to = out.raw_data();
  for (const std::int64_t i : indices) {
    std::memcpy(to, x.raw_data() + i * stride_bytes, row_bytes);
    to += row_bytes;
  }
}

void copy_strided_rows(const Tensor& x, std::span<const std::int64_t> indices, const Tensor& row,
                       Tensor& out) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    T* to = out.data<T>();
    for (const std::int64_t i : indices) {
      const T* from = x.data<T>() + i * x.strides()[0];
      for_each_offset(row.shape(), row.strides(), [&](std::int64_t at) { *to++ = from[at]; });
    }
  });
}

// REQUIRES: the indices are within the first axis of x
Tensor gather_rows(const Tensor& x, std::span<const std::int64_t> indices, Where where) {
  Shape shape = x.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor out = empty(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  if (indices.empty()) return out;
  const Tensor row = view::select(x, 0, 0, where);
  if (row.is_contiguous())
    copy_contiguous_rows(x, indices, out);
  else
    copy_strided_rows(x, indices, row, out);
  return out;
}

}  // namespace

TensorDataset::TensorDataset(std::vector<Tensor> tensors, Where where)
    : tensors_(std::move(tensors)) {
  RINGRAD_CHECK(!tensors_.empty(), ValueError, where,
                "TensorDataset: at least one tensor must be given; got none");
  for (const Tensor& x : tensors_) {
    RINGRAD_CHECK(x.defined(), ValueError, where,
                  "TensorDataset: every tensor must be defined; got an undefined one");
    check_cpu("TensorDataset", x.device(), where);
    RINGRAD_CHECK(x.dims() > 0, ShapeError, where,
                  "TensorDataset: the first axis must count the samples; got shape ", x.shape());
    RINGRAD_CHECK(x.shape()[0] == size(), ShapeError, where,
                  "TensorDataset: first extents must be equal; got ", tensors_.front().shape(),
                  " and ", x.shape());
  }
}

Batch TensorDataset::fetch(std::span<const std::int64_t> indices, Where where) const {
  for (const std::int64_t i : indices)
    RINGRAD_CHECK(i >= 0 && i < size(), IndexError, where, "fetch: indices must be in [0, ", size(),
                  "); got ", i);
  Batch batch;
  batch.tensors.reserve(tensors_.size());
  for (const Tensor& x : tensors_) batch.tensors.push_back(gather_rows(x, indices, where));
  return batch;
}

}  // namespace ringrad
