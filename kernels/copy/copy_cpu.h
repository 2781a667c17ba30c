// The loops behind copy.h and fill.h. Private to kernels/.

#pragma once

#include <cstddef>

#include "ringrad/core/dtype.h"
#include "ringrad/kernels/loop_nest.h"

namespace ringrad::kernels::cpu {

/// Bytes per thread below which splitting a copy costs more than it saves.
inline constexpr std::int64_t kBytesPerThread = 128 << 10;

/// Operand 0 of the nest = operand 1, converted. REQUIRES: no overlap; the nest holds an element.
void copy(const LoopNest<2>& nest, std::byte* dst, DType to, const std::byte* src, DType from);

/// As copy, for operands of one dtype, taken as unsigned integers of its size. The innermost axis
/// is contiguous in dst, the axis `across` in src.
template <class T>
void transpose(const LoopNest<2>& nest, unsigned across, T* dst, const T* src);

/// Converts n neighbouring elements.
using ConvertRow = void (*)(std::byte* dst, const std::byte* src, std::int64_t n);

/// The conversion between two dtypes.
ConvertRow convert_row(DType to, DType from);

}  // namespace ringrad::kernels::cpu
