#include "ringrad/kernels/matmul/matmul.h"

#include <tuple>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/matmul/matmul_cpu.h"

namespace ringrad::kernels {
namespace {

Shape batch_of(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); }

Shape result_shape(const Tensor& a, const Tensor& b, Where where) {
  RINGRAD_CHECK(a.dims() >= 2 && b.dims() >= 2, ShapeError, where,
                "matmul: both sides must have at least two axes; got ", a.shape(), " and ",
                b.shape());
  const std::int64_t rows = a.shape()[a.dims() - 2], columns = b.shape().back();
  RINGRAD_CHECK(a.shape().back() == b.shape()[b.dims() - 2], ShapeError, where,
                "matmul: inner dimensions must match; got ", a.shape(), " and ", b.shape());
  Shape shape{rows, columns};
  if (a.dims() == 2 && b.dims() == 2) return shape;
  shape = broadcast_shapes("matmul", batch_of(a.shape()), batch_of(b.shape()), where);
  RINGRAD_CHECK(shape.size() + 2 <= kMaxDims, ShapeError, where,
                "matmul: the result must have at most ", kMaxDims, " axes; got ", a.shape(),
                " and ", b.shape());
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

void check_operands(const Tensor& a, const Tensor& b, const Tensor& bias, std::int64_t columns,
                    Where where) {
  check_floating("matmul", a, where);
  check_same_dtype("matmul", a, b, where);
  check_same_device("matmul", a, b, where);
  if (!bias.defined()) return;
  check_same_dtype("matmul", a, bias, where);
  check_same_device("matmul", a, bias, where);
  RINGRAD_CHECK(bias.dims() == 1 && bias.numel() == columns, ShapeError, where,
                "matmul: bias must have shape (", columns, ",); got ", bias.shape());
}

// x itself if one of its two last axes is consecutive in memory and no element repeats, a form that
// every GEMM can read; else a copy.
Tensor as_matrices(const Tensor& x, Where where) {
  const int row = x.dims() - 2, column = x.dims() - 1;
  const auto consecutive = [&](int inner, int outer) {
    const bool inner_fits = x.strides()[inner] == 1 || x.shape()[inner] == 1;
    return inner_fits && (x.strides()[outer] >= x.shape()[inner] || x.shape()[outer] == 1);
  };
  return consecutive(column, row) || consecutive(row, column) ? x : contiguous(x, where);
}

// The strides of x's last two axes. Axes of extent 1, whose stride may be anything, get the stride
// that a fresh matrix of the same order would have.
std::pair<std::int64_t, std::int64_t> matrix_strides(const Tensor& x) {
  const int r = x.dims() - 2, c = x.dims() - 1;
  std::int64_t row = x.strides()[r], column = x.strides()[c];
  const std::int64_t rows = x.shape()[r], columns = x.shape()[c];
  if (rows == 1 && columns == 1) return {1, 1};
  if (rows == 1) row = column == 1 ? columns : 1;
  if (columns == 1) column = row == 1 ? rows : 1;
  return {row, column};
}

// Strides of the batch axes of x, aligned to `batch`; 0 where x is repeated.
Strides batch_strides(const Tensor& x, const Shape& batch) {
  Strides strides = Shape::filled(batch.size(), 0);
  const int shift = batch.size() - (x.dims() - 2);
  for (int i = 0; i < x.dims() - 2; ++i)
    if (x.shape()[i] != 1) strides[i + shift] = x.strides()[i];
  return strides;
}

// Iterates over the batch: the innermost axis of the nest is one GEMM call, the other axes are
// loops.
template <class T>
void multiply(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue, const Tensor& out,
              Where where) {
  GemmProblem gemm{};
  gemm.M = out.shape()[out.dims() - 2];
  gemm.N = out.shape().back();
  gemm.K = a.shape().back();
  std::tie(gemm.a_row, gemm.a_column) = matrix_strides(a);
  std::tie(gemm.b_row, gemm.b_column) = matrix_strides(b);
  gemm.out_row = gemm.N;
  gemm.relu = epilogue.relu;
  const Tensor dense_bias = epilogue.bias.defined() ? contiguous(epilogue.bias, where) : Tensor();
  const T* bias = dense_bias.defined() ? dense_bias.data<T>() : nullptr;
  const T* left = a.data<T>();
  const T* right = b.data<T>();
  T* result = out.data<T>();
  if (out.dims() == 2) {
    gemm.batch = 1;
    return cpu::gemm(gemm, left, right, bias, result, where);
  }
  const Shape batch = batch_of(out.shape());
  const Strides out_strides = batch_strides(out, batch), a_strides = batch_strides(a, batch),
                b_strides = batch_strides(b, batch);
  const auto nest = make_loop_nest<3>(batch, {&out_strides, &a_strides, &b_strides});
  gemm.batch = nest.row_extent();
  gemm.out_batch = nest.row_strides()[0];
  gemm.a_batch = nest.row_strides()[1];
  gemm.b_batch = nest.row_strides()[2];
  const bool rows_go_on =
      gemm.a_batch == gemm.M * gemm.a_row && gemm.out_batch == gemm.M * gemm.out_row;
  if (gemm.b_batch == 0 && rows_go_on) {  // many rows times one matrix
    gemm.M *= gemm.batch;
    gemm.batch = 1;
    if (gemm.K == 1 && gemm.a_row == 1) gemm.a_column = gemm.M;  // as matrix_strides() has it
  }
  for_each_row(nest, 0, nest.num_rows(), [&](const std::array<std::int64_t, 3>& offset) {
    cpu::gemm(gemm, left + offset[1], right + offset[2], bias, result + offset[0], where);
  });
}

// REQUIRES: out is contiguous
void multiply_into(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue,
                   const Tensor& out, Where where) {
  if (out.numel() == 0) return;
  if (out.device().is_cuda()) return cuda::matmul(a, b, epilogue.bias, epilogue.relu, out, where);
  if (out.dtype() == DType::float32)
    return multiply<float>(as_matrices(a, where), as_matrices(b, where), epilogue, out, where);
  if (out.dtype() == DType::float64)
    return multiply<double>(as_matrices(a, where), as_matrices(b, where), epilogue, out, where);

  const auto widen = [&](const Tensor& x) {
    return x.defined() ? contiguous(cast(x, DType::float32, where), where) : x;
  };
  const Tensor wide = empty(out.shape(), {.device = out.device()}, where);
  multiply<float>(widen(a), widen(b), {widen(epilogue.bias), epilogue.relu}, wide, where);
  copy_(out, wide, where);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue, Where where) {
  const Shape shape = result_shape(a, b, where);
  check_operands(a, b, epilogue.bias, shape.back(), where);
  Tensor out = empty(shape, {.dtype = a.dtype(), .device = a.device()}, where);
  multiply_into(a, b, epilogue, out, where);
  return out;
}

void matmul_out(const Tensor& a, const Tensor& b, const MatmulEpilogue& epilogue, const Tensor& out,
                Where where) {
  const Shape shape = result_shape(a, b, where);
  check_operands(a, b, epilogue.bias, shape.back(), where);
  RINGRAD_CHECK(out.shape() == shape, ShapeError, where, "matmul: out must have shape ", shape,
                "; got ", out.shape());
  check_same_dtype("matmul", a, out, where);
  check_same_device("matmul", a, out, where);
  if (out.is_contiguous()) {
    multiply_into(a, b, epilogue, out, where);
    out.mark_changed(where);
  } else {
    copy_(out, matmul(a, b, epilogue, where), where);
  }
}

}  // namespace ringrad::kernels
