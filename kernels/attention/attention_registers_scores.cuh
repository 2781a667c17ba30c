// Attention in registers: which scores count, masks and dropout, and the choice of a kernel.
// Private to kernels/attention/attention_registers_*_cuda.cu.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ringrad/kernels/attention/attention_registers.cuh"

namespace ringrad::kernels::cuda {

/// A thread's scores of one step: where they are, and which of them count.
template <Rows kRows>
struct StepScores {
  static constexpr bool kOwnsQueries = kRows == Rows::queries;
  const ScoreRules<float>& rules;
  const OwnedRows& owned;
  std::int64_t h;      // head of the queries
  std::int64_t first;  // column

  __device__ std::int64_t row(int i) const { return owned.first + row_of(i); }
  __device__ std::int64_t column(int j) const { return first + column_of(j); }
  __device__ std::int64_t query(int i, int j) const { return kOwnsQueries ? row(i) : column(j); }
  __device__ std::int64_t key(int i, int j) const { return kOwnsQueries ? column(j) : row(i); }

  /// Turns products of queries and keys into scores; -inf for those that do not count.
  template <int kD>
  __device__ void finish(Scores& x, Tiles<kD>& tiles) const {
    const AttentionProblem& a = rules.a;
    const bool all_count = columns_of<kRows>(a, owned.last).begin <= first &&
                           columns_of<kRows>(a, owned.first).end >= first + kStep;
    if (all_count && !rules.allowed && !rules.added) {
      const auto scale = static_cast<float>(a.scale);
      for_each_score([&](int i, int j) { x[i][j] *= scale; });
      return;
    }
    tiles.replace_one_by_one(x, [&](int i, int j, float product) {
      const AttentionRange range = columns_of<kRows>(a, row(i));
      return column(j) >= range.begin && column(j) < range.end
                 ? rules.score(product, owned.b, h, query(i, j), key(i, j))
                 : -std::numeric_limits<float>::infinity();
    });
  }

  /// Bit n is set if dropout keeps the n-th score, by rows.
  __device__ std::uint32_t kept() const {
    if (rules.p == 0) return ~0u;
    std::uint32_t bits = 0;
#pragma unroll 1  // a thread's random numbers take many instructions
    for (int n = 0; n < kRowsEach * kColumnsEach; ++n) {
      const int i = n / kColumnsEach, j = n % kColumnsEach;
      bits |= std::uint32_t{rules.dropout_factor(owned.b, h, query(i, j), key(i, j)) != 0} << n;
    }
    return bits;
  }
  __device__ float dropout_factor(std::uint32_t kept, int i, int j) const {
    return kept >> (i * kColumnsEach + j) & 1 ? rules.kept_factor : 0;
  }
};

/// The steps through the columns that any of the owned rows attends to.
template <Rows kRows>
__device__ AttentionRange steps_of(const AttentionProblem& a, const OwnedRows& owned) {
  return {columns_of<kRows>(a, owned.first).begin, columns_of<kRows>(a, owned.last).end};
}

/// body.operator()<T, kD>(), where kD columns hold a head. REQUIRES: fits_registers()
template <class Body>
void dispatch_registers(DType dtype, const AttentionProblem& a, Body body) {
  dispatch_floating(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::int64_t size = std::max(a.D, a.Dv);
      if (size <= 32) return body.template operator()<T, 32>();
      if (size <= 64) return body.template operator()<T, 64>();
      body.template operator()<T, 128>();
    }
  });
}

}  // namespace ringrad::kernels::cuda
