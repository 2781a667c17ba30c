// The kernel behind indices.h. Private to kernels/.

#pragma once

#include "ringrad/core/gpu/device_fault.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/index/index_check.cuh"

namespace ringrad::kernels::cuda {

/// Queues the check. If an index is bad, the check completes `note` with the value and position of
/// the first bad one. The note becomes the device's fault (core/gpu/device_fault.h) unless the
/// device already has one.
///
/// REQUIRES: indices is contiguous, int32 or int64
void check_indices(const Tensor& indices, const IsValid& is_valid, const BadIndex& note);

}  // namespace ringrad::kernels::cuda
