// Matrix products on a GPU, as a ladder:
//
//     matmul_element_per_thread    the definition; for small products, whose tiles would be mostly
//                                  empty
//     gemm.cuh                     tiles: each element read from memory is used 64 times or more
//     cuBLASLt                     if it is available, ours are not requested (backend.h), and it
//                                  can read the operands (blas_product.h)
//
// All strides are read directly: each block rearranges elements as it brings them into shared
// memory, so a transposed view costs nothing.

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/kernels/matmul/gemm.cuh"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

struct Problem {
  std::int64_t M, N, K;
  MatrixLayout a, b;  // b's rows i are the columns of out
  std::int64_t num_products;
  LoopNest<4> batch;  // of out, a, b and bias; bias is the same for all
};

// Neighbouring threads have neighbouring columns. Bound: memory latency.
template <class T>
__global__ void matmul_element_per_thread(Problem p, const T* a, const T* b, const T* bias,
                                          bool relu, T* out) {
  using Math = MathType<T>;
  const std::int64_t product_size = p.M * p.N, size = p.num_products * product_size;
  for (const std::int64_t i : own_elements(size)) {
    const std::int64_t m = i % product_size / p.N, n = i % p.N;
    const auto offsets = p.batch.element_offsets(static_cast<std::uint64_t>(i / product_size));
    const T* x = a + offsets[1] + m * p.a.i_stride;
    const T* y = b + offsets[2] + n * p.b.i_stride;
    Math sum = 0;
    for (std::int64_t k = 0; k < p.K; ++k)
      sum += static_cast<Math>(x[k * p.a.k_stride]) * static_cast<Math>(y[k * p.b.k_stride]);
    if (bias) sum += static_cast<Math>(bias[n]);
    out[offsets[0] + m * p.N + n] = T(relu && sum < 0 ? Math{0} : sum);
  }
}

// Tiles pay off if there is more than a corner of one to compute. Their numbers must fit into 32
// bits.
bool uses_tiles(const Problem& p) {
  constexpr std::int64_t kFewTerms = 256, kFewMultiplications = 1 << 15;
  for (const std::int64_t n :
       {p.M, p.N, p.K, p.a.i_stride, p.a.k_stride, p.b.i_stride, p.b.k_stride, p.num_products})
    if (n > kMostGemmExtent) return false;
  return p.K > kFewTerms || p.M * p.N * p.K > kFewMultiplications;
}

// Calls visit(operand), whose type says along which axis its elements are neighbours.
template <class T, class Visit>
void with_operand(const T* data, const MatrixLayout& m, const LoopNest<4>& batch, unsigned operand,
                  Visit visit) {
  if (m.k_stride == 1 && m.K > 1)
    visit(matrix_operand<T, true>(data, m, batch, operand));
  else
    visit(matrix_operand<T, false>(data, m, batch, operand));
}

template <class T>
void multiply(const Problem& p, const Tensor& a, const Tensor& b, const Tensor& bias, bool relu,
              const Tensor& out, Where where) {
  const T *left = a.device_data<T>(), *right = b.device_data<T>();
  const T* offsets = bias.defined() ? bias.device_data<T>() : nullptr;
  if (!uses_tiles(p))
    return launch_on(out.device(), thread_per_element("matmul", out.numel()), where,
                     matmul_element_per_thread<T>, p, left, right, offsets, relu,
                     out.device_data<T>());

  const GemmShape shape{.M = static_cast<unsigned>(p.M),
                        .N = static_cast<unsigned>(p.N),
                        .K = static_cast<unsigned>(p.K),
                        .batch = p.batch,
                        .num_products = static_cast<unsigned>(p.num_products)};
  const GemmOutput<T> output{.data = out.device_data<T>(),
                             .row = shape.N,
                             .bias = offsets,
                             .relu = relu,
                             .pack = pack_of(out.raw_data(), sizeof(T), p.N, p.N, p.batch, 0)};
  with_operand(left, p.a, p.batch, 1, [&](const auto& x) {
    with_operand(right, p.b, p.batch, 2,
                 [&](const auto& y) { gemm("matmul", out.device(), shape, x, y, output, where); });
  });
}

// x expanded to the batch axes of `out`.
Tensor with_batch_of(const Tensor& out, const Tensor& x, Where where) {
  Shape shape = out.shape();
  for (const int axis : {1, 2}) shape[out.dims() - axis] = x.shape()[x.dims() - axis];
  return x.shape() == shape ? x : view::expand(x, shape, where);
}

// REQUIRES: a and b have the batch axes of out
Problem describe(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int row = out.dims() - 2, column = out.dims() - 1;
  const auto outer = [&](const Shape& all) {
    return Shape(std::span(all.begin(), all.begin() + row));
  };
  const Shape batch = outer(out.shape());
  const Strides out_strides = outer(out.strides()), a_strides = outer(a.strides()),
                b_strides = outer(b.strides()), bias_strides = Shape::filled(row, 0);
  const std::int64_t M = out.shape()[row], N = out.shape()[column], K = a.shape()[column];
  return {.M = M,
          .N = N,
          .K = K,
          .a = {M, K, a.strides()[row], a.strides()[column]},
          .b = {N, K, b.strides()[column], b.strides()[row]},
          .num_products = batch.numel(),
          .batch = make_loop_nest<4>(batch, {&out_strides, &a_strides, &b_strides, &bias_strides})};
}

// The vendor's library takes batches along one axis.
bool multiply_by_vendor(const Problem& p, const Tensor& a, const Tensor& b, const Tensor& bias,
                        bool relu, const Tensor& out, Where where) {
  if (p.batch.axes > 1 || p.K == 0 || !uses_vendor(Provided::matmul, where)) return false;
  const auto batch = p.batch.row_strides();
  const GemmProblem problem{.batch = p.num_products,
                            .M = p.M,
                            .N = p.N,
                            .K = p.K,
                            .a_batch = batch[1],
                            .a_row = p.a.i_stride,
                            .a_column = p.a.k_stride,
                            .b_batch = batch[2],
                            .b_row = p.b.k_stride,
                            .b_column = p.b.i_stride,
                            .out_batch = batch[0],
                            .out_row = p.N,
                            .relu = relu};
  return vendor::multiply(out.device(), out.dtype(), problem, a.raw_data(), b.raw_data(),
                          bias.defined() ? bias.raw_data() : nullptr, out.raw_data(), where);
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, bool relu, const Tensor& out,
            Where where) {
  if (b.dims() == 2 && a.dims() > 2) {  // many rows times one matrix
    const std::int64_t N = out.shape().back();
    const Shape rows{out.numel() / N, a.shape().back()};
    if (view::reshaped_strides(a, rows))
      return matmul(view::reshape(a, rows, where), b, bias, relu,
                    view::reshape(out, {rows[0], N}, where), where);
  }
  const Tensor dense_bias = bias.defined() ? contiguous(bias, where) : bias;
  const Tensor left = with_batch_of(out, a, where), right = with_batch_of(out, b, where);
  const Problem problem = describe(left, right, out);
  if (multiply_by_vendor(problem, left, right, dense_bias, relu, out, where)) return;
  dispatch_floating(out.dtype(), [&]<class T>() {
    multiply<T>(problem, left, right, dense_bias, relu, out, where);
  });
}

}  // namespace ringrad::kernels::cuda
