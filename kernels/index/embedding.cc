#include "ringrad/kernels/index/embedding.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/index_select.h"
#include "ringrad/kernels/index/indices.h"

namespace ringrad::kernels {

Tensor embedding(const Tensor& weight, const Tensor& indices, Where where) {
  check_floating("embedding", weight, where);
  check_same_device("embedding", weight, indices, where);
  RINGRAD_CHECK(weight.dims() == 2, ShapeError, where, "embedding: weight must be (V, C); got ",
                weight.shape());
  const std::int64_t num_rows = weight.shape()[0], length = weight.shape()[1];
  check_indices("embedding", "indices", indices, num_rows, where);
  RINGRAD_CHECK(indices.dims() < kMaxDims, ShapeError, where, "embedding: indices may have ",
                kMaxDims - 1, " axes; got ", indices.shape());
  Shape shape = indices.shape();
  shape.push_back(length);
  const Tensor y = empty(shape, {.dtype = weight.dtype(), .device = weight.device()}, where);
  select_slices(contiguous(weight, where), 1, num_rows, length, contiguous(indices, where), y,
                where);
  return y;
}

Tensor embedding_backward(const Tensor& grad_output, const Tensor& indices, std::int64_t num_rows,
                          std::int64_t padding_index, Where where) {
  RINGRAD_CHECK(grad_output.dims() > 0, ShapeError, where,
                "embedding_backward: grad_output must hold vectors; got ", grad_output.shape());
  const Tensor grad_weight =
      empty({num_rows, grad_output.shape().back()},
            {.dtype = grad_output.dtype(), .device = grad_output.device()}, where);
  embedding_backward(grad_output, indices, padding_index, grad_weight, where);
  return grad_weight;
}

void embedding_backward(const Tensor& grad_output, const Tensor& indices,
                        std::int64_t padding_index, const Tensor& grad_weight, Where where) {
  constexpr const char* kName = "embedding_backward";
  check_floating(kName, grad_output, where);
  check_same_dtype(kName, grad_output, grad_weight, where);
  check_same_device(kName, grad_output, indices, where);
  RINGRAD_CHECK(grad_weight.is_contiguous(), ShapeError, where, kName,
                ": grad_weight must be contiguous; got strides ", grad_weight.strides());
  const std::int64_t num_rows = grad_weight.shape()[0], length = grad_weight.shape()[1];
  Shape expected = indices.shape();
  expected.push_back(length);
  RINGRAD_CHECK(grad_output.shape() == expected, ShapeError, where, kName,
                ": grad_output must hold one vector per index; got ", grad_output.shape(), " and ",
                indices.shape());
  check_indices(kName, "indices", indices, num_rows, where);
  sum_slices(contiguous(grad_output, where), 1, num_rows, length, contiguous(indices, where),
             padding_index, grad_weight, where);
  grad_weight.mark_changed(where);
}

}  // namespace ringrad::kernels
