// The definition of the matrix product, in double.

#pragma once

#include <cstdint>
#include <vector>

namespace ringrad::reference {

/// out (M, N) = a (M, K) * b (K, N), row-major.
inline std::vector<double> matmul(std::int64_t M, std::int64_t N, std::int64_t K, const double* a,
                                  const double* b) {
  std::vector<double> out;
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
      out.push_back(sum);
    }
  return out;
}

}  // namespace ringrad::reference
