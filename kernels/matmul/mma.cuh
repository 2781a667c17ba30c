// Tensor cores: the product of two 16 x 16 blocks of 16-bit floats, held jointly by a warp. Private
// to kernels/*_cuda.cu.
//
// A warp holds a block (i, k) as a Fragment: four blocks of 8 x 8. In each, lane 4 * g + t has the
// elements k = 2t and 2t + 1 of row g:
//
//        left factor, k                right factor, k
//          0 ... 7   8 ... 15            0 ... 7   8 ... 15
//     i 0   r[0]      r[2]          j 0   r[0]      r[1]       r[2h], r[2h + 1] multiply together
//       8   r[1]      r[3]            8   r[2]      r[3]
//
// The simulator has no tensor cores, and those of sm_75 do not know bfloat16: there the lanes
// exchange their elements, and each lane computes its own sums.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/core/half.h"

namespace ringrad::kernels::cuda {

struct Fragment {
  std::uint32_t r[4];  // two elements each, the first in the lower half
};

/// The block whose rows begin at the addresses that the lanes pass: lane 8 * q + j passes the
/// address of row j of r[q] in shared memory. A row is 8 elements along k, at 16 aligned bytes; if
/// kTransposed, 8 elements along i at one k.
///
/// REQUIRES: all lanes take part; blocks of threads have one dimension
template <bool kTransposed>
__device__ Fragment load_fragment(const uint4* row);

/// sum[i, j] += sum over k of a[i, k] * b[j, k]. Lane 4 * g + t holds, for h = 0 and 1,
///
///     sum[h][0], sum[h][1]   i = g       j = 8h + 2t, 8h + 2t + 1
///     sum[h][2], sum[h][3]   i = g + 8   j = 8h + 2t, 8h + 2t + 1
///
/// REQUIRES: T is float16 or bfloat16; all lanes take part; blocks of threads have one dimension
template <class T>
__device__ void multiply_add(float (&sum)[2][4], const Fragment& a, const Fragment& b);

/// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ std::uint32_t round_pair(float first, float second);

/// Sums of multiply_add() as the left factor (i, k) of another product: the lanes hold the same
/// elements of both.
template <class T>
__device__ Fragment as_left_factor(const float (&sum)[2][4]) {
  Fragment f;
#pragma unroll
  for (int q = 0; q < 4; ++q)
    f.r[q] = round_pair<T>(sum[q / 2][q % 2 * 2], sum[q / 2][q % 2 * 2 + 1]);
  return f;
}

// Implementation details follow.

#ifdef __CUDACC__

template <bool kTransposed>
__device__ Fragment load_fragment(const uint4* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  Fragment f;
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
  return f;
}

/// The values that all lanes of the warp pass, by lane. REQUIRES: all lanes read the same number
struct LaneValues {
  std::uint64_t own;
  __device__ std::uint64_t operator[](unsigned lane) const {
    return __shfl_sync(~0u, own, static_cast<int>(lane));
  }
};
__device__ inline LaneValues exchange_all(std::uint64_t value, const char*) { return {value}; }

#else

/// The values that all lanes of the warp pass, by lane; valid until the call after the next one.
inline const std::uint64_t* exchange_all(std::uint64_t value, const char* operation) {
  return sim::device::exchange(~0u, value, operation, sim::Site::here()).values;
}

template <bool kTransposed>
Fragment load_fragment(const uint4* row) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const std::uint64_t* rows = exchange_all(std::bit_cast<std::uint64_t>(row), "ldmatrix");
  const auto element = [&](unsigned q, unsigned j, unsigned column) {
    const auto from = std::bit_cast<const std::byte*>(rows[8 * q + j]);
    std::uint16_t value;
    std::memcpy(&value, from + column * sizeof value, sizeof value);
    return std::uint32_t{value};
  };
  Fragment f;
  for (unsigned q = 0; q < 4; ++q)
    f.r[q] = kTransposed ? element(q, 2 * t, g) | element(q, 2 * t + 1, g) << 16
                         : element(q, g, 2 * t) | element(q, g, 2 * t + 1) << 16;
  return f;
}

#endif

#if defined(__CUDACC__) && !(defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800)

template <class T>
__device__ void multiply_add(float (&sum)[2][4], const Fragment& a, const Fragment& b) {
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    float(&c)[4] = sum[h];
    const std::uint32_t b0 = b.r[2 * h], b1 = b.r[2 * h + 1];
    if constexpr (std::is_same_v<T, bfloat16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
  }
}

template <class T>
__device__ std::uint32_t round_pair(float first, float second) {
  std::uint32_t pair;
  if constexpr (std::is_same_v<T, bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

#else

template <class T>
__device__ std::uint32_t round_pair(float first, float second) {
  return T(first).bits | std::uint32_t{T(second).bits} << 16;
}

/// The four lanes from `lane` hold a row, 8 elements along k, in the words `word` of their pairs.
template <class T, class Pairs>
__device__ void unpack_row(const Pairs& pairs, unsigned lane, unsigned word, float* row) {
#pragma unroll
  for (unsigned s = 0; s < 4; ++s) {
    const auto bits = static_cast<std::uint32_t>(pairs[lane + s] >> 32 * word);
    row[2 * s] = std::bit_cast<T>(static_cast<std::uint16_t>(bits));
    row[2 * s + 1] = std::bit_cast<T>(static_cast<std::uint16_t>(bits >> 16));
  }
}

// A function of its own: kernels that contain it hundreds of times would take minutes to compile.
template <class T>
[[gnu::noinline]] __device__ void multiply_add_by_lanes(float (&sum)[2][4], const Fragment& a,
                                                        const Fragment& b) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto pair = [](const Fragment& f, unsigned first) {
    return f.r[first] | std::uint64_t{f.r[first + 1]} << 32;
  };
  float left[2][16], right[2][2][16];  // rows g and g + 8 of a; 8h + 2t and 8h + 2t + 1 of b
  for (unsigned half = 0; half < 2; ++half) {
    const auto pairs = exchange_all(pair(a, 2 * half), "mma");
    for (unsigned i = 0; i < 2; ++i) unpack_row<T>(pairs, 4 * g, i, left[i] + 8 * half);
  }
  for (unsigned h = 0; h < 2; ++h) {
    const auto pairs = exchange_all(pair(b, 2 * h), "mma");
    for (unsigned j = 0; j < 2; ++j)
      for (unsigned half = 0; half < 2; ++half)
        unpack_row<T>(pairs, 4 * (2 * t + j), half, right[h][j] + 8 * half);
  }
  for (unsigned h = 0; h < 2; ++h)
    for (unsigned i = 0; i < 2; ++i)
      for (unsigned j = 0; j < 2; ++j)
        for (unsigned k = 0; k < 16; ++k) sum[h][2 * i + j] += left[i][k] * right[h][j][k];
}

template <class T>
__device__ void multiply_add(float (&sum)[2][4], const Fragment& a, const Fragment& b) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, float16>) {  // 8 terms at a time
    for (unsigned h = 0; h < 2; ++h)
      for (unsigned half = 0; half < 2; ++half)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sum[h][0]), "+f"(sum[h][1]), "+f"(sum[h][2]), "+f"(sum[h][3])
            : "r"(a.r[2 * half]), "r"(a.r[2 * half + 1]), "r"(b.r[2 * h + half]));
    return;
  }
#endif
  multiply_add_by_lanes<T>(sum, a, b);
}

#endif

}  // namespace ringrad::kernels::cuda
