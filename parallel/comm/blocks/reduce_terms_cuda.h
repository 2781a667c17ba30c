// reduce_terms.h on a GPU. Its kernels may also read and write the memory of other GPUs that give
// it access.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/parallel/comm/common/reduce_op.h"

namespace ringrad::cuda {

/// The most terms, and the most outputs, of one sum.
inline constexpr std::size_t kMaxTerms = 128;

/// outs[k][i] = ((terms[0][i] op terms[1][i]) op terms[2][i]) ...,   / divisor for mean;  all k
///
/// On the current stream of `device`. An output may be one of the terms. 16-bit floats are added in
/// float32 and rounded once. Otherwise as ringrad::reduce_terms.
///
/// REQUIRES: 1 to kMaxTerms terms and outputs, within reach of the device; dtype is not bool
/// Throws:   CudaError
void reduce_terms(Device device, DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte* const> outs, std::int64_t count, int divisor, Where where);

}  // namespace ringrad::cuda
