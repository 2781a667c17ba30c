// parallel_for: a range of independent work, split over the calling thread's OpenMP team.
//
//     parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) { loop(x, begin, end); });
//
//     0                                    n
//     |---- thread 0 ----|---- thread 1 ----|       contiguous pieces, at least `grain` long
//
// Each thread of the program has its own team size (omp_set_num_threads), so ranks that are threads
// split their work independently. Starting a team costs about a microsecond; choose the grain so
// that a piece takes ten. The split depends on the number of threads. The result of a kernel that
// reduces must not, so it runs parallel_for over fixed chunks and combines them in order.

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "ringrad/kernels/spinning.h"

namespace ringrad::kernels {

/// Number of pieces that parallel_for would make.
inline std::int64_t num_pieces(std::int64_t n, std::int64_t grain) {
  if (n <= grain) return 1;
  const std::int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  return std::min(threads, (n + grain - 1) / grain);
}

/// Calls body(begin, end) for pieces that together are [0, n); inline, on this thread, if one piece
/// is enough. An exception in any piece is rethrown here after all pieces have ended.
///
/// REQUIRES: grain > 0
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0) return;
  const std::int64_t pieces = num_pieces(n, grain);
  if (pieces == 1) {
    body(std::int64_t{0}, n);
    return;
  }
  const int threads = static_cast<int>(pieces);
  std::exception_ptr first_error;
#pragma omp parallel num_threads(threads)
  {
    // The runtime may grant fewer threads than asked for, so the pieces come from the real team.
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t me = omp_get_thread_num();
    const std::int64_t shortest = n / team, longer_ones = n % team;
    const std::int64_t begin = me * shortest + std::min(me, longer_ones);
    const std::int64_t end = begin + shortest + (me < longer_ones ? 1 : 0);
    watch_for_load();
    try {
      body(begin, end);
    } catch (...) {
#pragma omp critical(ringrad_parallel_for)
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace ringrad::kernels
