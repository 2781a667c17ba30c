// Checks on tensors of indices, shared by all operators that look something up.

#pragma once

#include <cstdint>
#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Checks that every index lies in [0, bound) or equals `ignored`.
///
/// Async:   on a GPU the next call that waits for the check throws (core/gpu/device_fault.h)
/// Throws:  DTypeError unless int32 or int64; IndexError for the first other index,
///          "<operation>: <what> must be in [0, 10); got 12 at position (3,)"
void check_indices(const char* operation, const char* what, const Tensor& indices,
                   std::int64_t bound, Where where,
                   std::optional<std::int64_t> ignored = std::nullopt);

namespace cpu {

/// True if all of the n indices lie in [0, bound): for kernels that check the indices of each piece
/// just before they use them, rather than read all of them twice.
template <class Index>
bool all_valid(const Index* indices, std::int64_t n, std::int64_t bound);

}  // namespace cpu

}  // namespace ringrad::kernels
