// Arithmetic of collectives: sums of buffers of several ranks, element by element, in a given
// order.
//
// Threads of one process read each other's memory, so a sum takes its terms from where they lie.
// The loops are compiled for several instruction sets; each does one operation per element and no
// contraction, so all of them give the same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringrad/core/dtype.h"
#include "ringrad/parallel/comm/common/reduce_op.h"

namespace ringrad {

/// The dtype in which a reduction of `dtype` is carried between ranks: float32 for the 16-bit
/// floats, so that they are rounded once, at the end; uint8 for bool; else dtype itself.
DType carrier_dtype(DType dtype);

/// outs[k][i] = ((terms[0][i] op terms[1][i]) op terms[2][i]) ...,   / divisor for mean;  all k
///
/// An output may be one of the terms. min and max give NaN if a term is NaN; integers wrap around.
///
/// REQUIRES: one or more terms; one or more outputs; dtype is a carrier dtype
void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte* const> outs, std::int64_t count, int divisor);

/// Copies elements between `dtype` and its carrier dtype; 16-bit floats round to nearest even.
void to_carrier(DType dtype, const std::byte* in, std::byte* carrier, std::int64_t count);
void from_carrier(DType dtype, const std::byte* carrier, std::byte* out, std::int64_t count);

}  // namespace ringrad
