// The weights and biases of a normalization on a GPU: small, read repeatedly, and often of a
// different dtype than the values they apply to. Private to kernels/*_cuda.cu.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {

/// C numbers. float32 arithmetic reads them as float32 or a 16-bit dtype, float64 as float64.
struct Parameter {
  const void* data;  // aligned to 16 bytes; null: all C numbers are one constant
  DType dtype;
};

/// Number c of the C numbers, or `otherwise` if there is no array.
template <class Math>
__device__ Math load_parameter(const Parameter& parameter, std::int64_t c, Math otherwise) {
  return parameter.data ? load<Math>(parameter.data, parameter.dtype, c) : otherwise;
}

/// V neighbours from number c on, read in packs of the stored type.
template <class Stored, class Index, class Math, int V>
__device__ void load_packs(const Parameter& parameter, Index c, Math (&values)[V]) {
  const auto* packs = static_cast<const Pack<Stored, kPack<Stored>>*>(parameter.data);
#pragma unroll
  for (int i = 0; i < V; i += kPack<Stored>) {
    const auto pack = packs[(c + i) / kPack<Stored>];
#pragma unroll
    for (int k = 0; k < kPack<Stored>; ++k) values[i + k] = static_cast<Math>(pack.values[k]);
  }
}

/// Numbers c, c + 1 ... for a pack of T. Numbers outside [0, C) are not read.
template <class T, class Index, class Math, int V>
__device__ void load_parameters(const Parameter& parameter, Index c, Index C, Math otherwise,
                                Math (&values)[V]) {
  static_assert(V == kPack<T>);
  const bool whole = c % V == 0 && c + V <= C;
  if (parameter.data && whole && parameter.dtype == dtype_of<T>) {
    load_packs<T>(parameter, c, values);
  } else if (parameter.data && whole && parameter.dtype == dtype_of<Math>) {
    load_packs<Math>(parameter, c, values);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      values[i] = c + i >= 0 && c + i < C ? load_parameter(parameter, c + i, otherwise) : otherwise;
  }
}

// -- Host -----------------------------------------------------------------------------------------

/// `keep` owns the memory that the parameter points to: x, or a copy in `math`.
inline Parameter parameter_of(const Tensor& x, DType math, Tensor& keep, Where where) {
  if (!x.defined()) return {nullptr, math};
  keep = math_dtype(x.dtype()) == math ? x : cast(x, math, where);
  keep = aligned(contiguous(keep, where), where);
  return {keep.raw_data(), keep.dtype()};
}

}  // namespace ringrad::kernels::cuda
