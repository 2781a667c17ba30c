#include "ringrad/kernels/library/blas_product.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace ringrad::kernels {
namespace {

// The offset of element (r, c) of the matrix that a BLAS reads.
std::int64_t place(const BlasMatrix& m, std::int64_t r, std::int64_t c) {
  return m.transposed ? c + r * m.leading : r + c * m.leading;
}

// True if the matrix describes the offsets r * row + c * column, with a leading dimension that BLAS
// accepts.
bool says(const BlasMatrix& m, std::int64_t rows, std::int64_t columns, std::int64_t row,
          std::int64_t column) {
  if (m.leading < m.rows) return false;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      if (place(m, r, c) != r * row + c * column) return false;
  return true;
}

// True if a leading dimension exists that describes these offsets.
bool can_be_said(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  for (std::int64_t leading = 1; leading < 10; ++leading)
    if (says({rows, columns, leading, false}, rows, columns, row, column) ||
        says({columns, rows, leading, true}, rows, columns, row, column))
      return true;
  return false;
}

template <class Visit>
void for_strides(Visit visit) {
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t column = 0; column < 8; ++column) visit(row, column);
}

TEST(BlasMatrixTest, DescribesEveryMatrixThatABlasCanReadAndNoOther) {
  for (std::int64_t rows = 1; rows < 6; ++rows)
    for (std::int64_t columns = 1; columns < 6; ++columns)
      for_strides([&](std::int64_t row, std::int64_t column) {
        const auto matrix = blas_matrix(rows, columns, row, column);
        ASSERT_EQ(matrix.has_value(), can_be_said(rows, columns, row, column))
            << rows << " x " << columns << " with strides " << row << ", " << column;
        if (!matrix) return;
        ASSERT_TRUE(says(*matrix, rows, columns, row, column))
            << rows << " x " << columns << " with strides " << row << ", " << column;
        ASSERT_EQ(matrix->rows, matrix->transposed ? columns : rows);
        ASSERT_EQ(matrix->columns, matrix->transposed ? rows : columns);
      });
}

TEST(BlasMatrixTest, RefusesMatricesThatRepeatOrOverlap) {
  EXPECT_FALSE(blas_matrix(40, 30, 0, 1));  // one row, expanded: the gradient of linear(x).sum(0)
  EXPECT_FALSE(blas_matrix(40, 30, 1, 0));
  EXPECT_FALSE(blas_matrix(40, 30, 0, 0));
  EXPECT_FALSE(blas_matrix(40, 30, 1, 1));   // windows of a sequence
  EXPECT_FALSE(blas_matrix(40, 30, 29, 1));  // a row's last element is the next row's first
  EXPECT_FALSE(blas_matrix(40, 30, 60, 2));
}

TEST(BlasMatrixTest, TakesARowAsOneColumn) {
  const auto row = blas_matrix(1, 30, 30, 1);
  ASSERT_TRUE(row);
  EXPECT_TRUE(row->transposed);
  EXPECT_EQ(row->rows, 30);
  EXPECT_EQ(row->columns, 1);
}

// The product as a BLAS computes it, from offsets in memory.
std::vector<double> computed(const BlasProduct& product, const GemmProblem& p,
                             const std::vector<double>& a, const std::vector<double>& b) {
  const auto read = [](const std::vector<double>& memory, const BlasMatrix& m, std::int64_t r,
                       std::int64_t c) {
    return memory.at(static_cast<std::size_t>(place(m, r, c)));  // throws beyond its end
  };
  std::vector<double> out(static_cast<std::size_t>(p.M * p.out_row));
  for (std::int64_t n = 0; n < p.N; ++n)
    for (std::int64_t m = 0; m < p.M; ++m)
      for (std::int64_t k = 0; k < p.K; ++k)
        out.at(static_cast<std::size_t>(place(product.out, n, m))) +=
            read(b, product.left, n, k) * read(a, product.right, k, m);
  return out;
}

std::vector<double> defined(const GemmProblem& p, const std::vector<double>& a,
                            const std::vector<double>& b) {
  std::vector<double> out(static_cast<std::size_t>(p.M * p.out_row));
  for (std::int64_t m = 0; m < p.M; ++m)
    for (std::int64_t n = 0; n < p.N; ++n)
      for (std::int64_t k = 0; k < p.K; ++k)
        out[static_cast<std::size_t>(m * p.out_row + n)] +=
            a.at(static_cast<std::size_t>(m * p.a_row + k * p.a_column)) *
            b.at(static_cast<std::size_t>(k * p.b_row + n * p.b_column));
  return out;
}

// As many numbers as such a matrix spans, all different.
std::vector<double> memory(std::int64_t rows, std::int64_t columns, std::int64_t row,
                           std::int64_t column) {
  std::vector<double> values(static_cast<std::size_t>((rows - 1) * row + (columns - 1) * column) +
                             1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i + 1);
  return values;
}

TEST(BlasProductTest, IsTheProductForAllStridesItTakes) {
  constexpr std::int64_t M = 3, N = 2, K = 4;
  int taken = 0;
  for_strides([&](std::int64_t a_row, std::int64_t a_column) {
    for_strides([&](std::int64_t b_row, std::int64_t b_column) {
      const GemmProblem p{.batch = 1,
                          .M = M,
                          .N = N,
                          .K = K,
                          .a_batch = 0,
                          .a_row = a_row,
                          .a_column = a_column,
                          .b_batch = 0,
                          .b_row = b_row,
                          .b_column = b_column,
                          .out_batch = 0,
                          .out_row = N + 1};
      const auto a = memory(M, K, a_row, a_column), b = memory(K, N, b_row, b_column);
      const auto product = blas_product(p, a.data(), b.data(), nullptr, nullptr);
      ASSERT_EQ(product.has_value(),
                can_be_said(M, K, a_row, a_column) && can_be_said(K, N, b_row, b_column));
      if (!product) return;
      ++taken;
      ASSERT_EQ(computed(*product, p, a, b), defined(p, a, b));
    });
  });
  // Accepted for a: rows 4 to 7 apart, or columns 3 to 7 apart; for b: 2 to 7, or 4 to 7.
  EXPECT_EQ(taken, 9 * 10);
}

TEST(BlasProductTest, IsAlignedAsTheOperandAlignedLeast) {
  const GemmProblem p{.batch = 1,
                      .M = 4,
                      .N = 4,
                      .K = 4,
                      .a_batch = 16,
                      .a_row = 4,
                      .a_column = 1,
                      .b_batch = 16,
                      .b_row = 4,
                      .b_column = 1,
                      .out_batch = 16,
                      .out_row = 4};
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  const auto alignment = [&](std::uintptr_t a, std::uintptr_t b, std::uintptr_t bias,
                             std::uintptr_t out) {
    return blas_product(p, at(a), at(b), at(bias), at(out))->alignment;
  };
  EXPECT_EQ(alignment(4096, 4096, 4096, 4096), 256u);
  EXPECT_EQ(alignment(4096, 4096, 0, 4096), 256u);
  EXPECT_EQ(alignment(4096 + 64, 4096, 4096, 4096), 64u);
  EXPECT_EQ(alignment(4096, 4096 + 32, 4096, 4096), 32u);
  EXPECT_EQ(alignment(4096, 4096, 4096 + 2, 4096), 2u);
  EXPECT_EQ(alignment(4096, 4096, 4096, 4096 + 8), 8u);
}

TEST(BlasProductTest, TakesBatchesThatItsLibraryCanCount) {
  GemmProblem p{.batch = std::numeric_limits<std::int32_t>::max(),
                .M = 1,
                .N = 1,
                .K = 1,
                .a_batch = 0,
                .a_row = 1,
                .a_column = 1,
                .b_batch = 0,
                .b_row = 1,
                .b_column = 1,
                .out_batch = 1,
                .out_row = 1};
  EXPECT_TRUE(blas_product(p, nullptr, nullptr, nullptr, nullptr));
  ++p.batch;
  EXPECT_FALSE(blas_product(p, nullptr, nullptr, nullptr, nullptr));
}

}  // namespace
}  // namespace ringrad::kernels
