// CUDA's vector types: float4, int2, dim3 ... with the toolkit's names, sizes and alignments.

#pragma once

#include <cstddef>

namespace ringrad::sim {
// A vector of 2 or 4 is aligned to its size, up to 16 bytes, so that one instruction can load it.
constexpr std::size_t vector_alignment(std::size_t bytes) { return bytes < 16 ? bytes : 16; }
}  // namespace ringrad::sim

#define RINGRAD_SIM_VECTOR_TYPES(T, name)                                 \
  struct name##1 {                                                        \
    T x;                                                                  \
  };                                                                      \
  struct alignas(ringrad::sim::vector_alignment(2 * sizeof(T))) name##2 { \
    T x, y;                                                               \
  };                                                                      \
  struct name##3 {                                                        \
    T x, y, z;                                                            \
  };                                                                      \
  struct alignas(ringrad::sim::vector_alignment(4 * sizeof(T))) name##4 { \
    T x, y, z, w;                                                         \
  };                                                                      \
  inline name##1 make_##name##1(T x) { return {x}; }                      \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }              \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }      \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

RINGRAD_SIM_VECTOR_TYPES(signed char, char)
RINGRAD_SIM_VECTOR_TYPES(unsigned char, uchar)
RINGRAD_SIM_VECTOR_TYPES(short, short)
RINGRAD_SIM_VECTOR_TYPES(unsigned short, ushort)
RINGRAD_SIM_VECTOR_TYPES(int, int)
RINGRAD_SIM_VECTOR_TYPES(unsigned, uint)
RINGRAD_SIM_VECTOR_TYPES(long long, longlong)
RINGRAD_SIM_VECTOR_TYPES(unsigned long long, ulonglong)
RINGRAD_SIM_VECTOR_TYPES(float, float)
RINGRAD_SIM_VECTOR_TYPES(double, double)
#undef RINGRAD_SIM_VECTOR_TYPES

struct dim3 {
  unsigned x, y, z;

  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
