// One array in NumPy's format (npy.h), wherever its bytes are.

#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ringrad/core/tensor.h"
#include "ringrad/data/byte_reader.h"

namespace ringrad {

/// Throws as read_npy.
Tensor read_npy_array(ByteReader& bytes, Where where);

/// Throws DTypeError, which names the operation, for bfloat16.
void check_npy_dtype(const char* operation, const Tensor& x, Where where);
/// Takes the next bytes of a file.
using WriteBytes = std::function<void(std::span<const std::byte>)>;
/// REQUIRES: check_npy_dtype
void write_npy_array(const WriteBytes& out, const Tensor& x, Where where);

}  // namespace ringrad
