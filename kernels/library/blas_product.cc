#include "ringrad/kernels/library/blas_product.h"

#include <initializer_list>
#include <limits>

namespace ringrad::kernels {
namespace {

// The leading dimension of columns of `rows` elements, `step` apart, where columns are `stride`
// apart.
std::optional<std::int64_t> leading_dimension(std::int64_t rows, std::int64_t columns,
                                              std::int64_t step, std::int64_t stride) {
  if (step != 1 && rows > 1) return std::nullopt;
  if (columns == 1) return rows;
  return stride >= rows ? std::optional(stride) : std::nullopt;
}

std::uint32_t least_alignment(std::initializer_list<const void*> operands) {
  std::uintptr_t bits = 256;
  for (const void* operand : operands) bits |= reinterpret_cast<std::uintptr_t>(operand);
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

}  // namespace

std::optional<BlasMatrix> blas_matrix(std::int64_t rows, std::int64_t columns,
                                      std::int64_t row_stride, std::int64_t column_stride) {
  const auto as_is = leading_dimension(rows, columns, row_stride, column_stride);
  const auto transposed = leading_dimension(columns, rows, column_stride, row_stride);
  // A row may be both; then it is one long column rather than many columns of one element.
  if (transposed && (!as_is || rows == 1)) return BlasMatrix{columns, rows, *transposed, true};
  if (as_is) return BlasMatrix{rows, columns, *as_is, false};
  return std::nullopt;
}

std::optional<BlasProduct> blas_product(const GemmProblem& p, const void* a, const void* b,
                                        const void* bias, const void* out) {
  if (p.batch > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  const auto left = blas_matrix(p.N, p.K, p.b_column, p.b_row);
  const auto right = blas_matrix(p.K, p.M, p.a_column, p.a_row);
  if (!left || !right) return std::nullopt;
  return BlasProduct{.left = *left,
                     .right = *right,
                     .out = {p.N, p.M, p.out_row, false},
                     .alignment = least_alignment({a, b, bias, out})};
}

}  // namespace ringrad::kernels
