// Concatenates tensors along an axis.

#pragma once

#include <span>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// y = [x0 | x1 | ...] along `axis`; channels_last if all inputs are, else contiguous.
///
/// Shapes:  equal except along `axis`, whose extents add up
/// DTypes:  all, the same for each
/// Throws:  ValueError for an empty list; ShapeError if shapes differ elsewhere, or for an absent
///          axis; DTypeError, DeviceError
Tensor concatenate(std::span<const Tensor> list, std::int64_t axis = 0,
                   Where where = Where::current());

}  // namespace ringrad::kernels
