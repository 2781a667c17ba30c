// The elements of one tensor, which fill the rest of a file.

#pragma once

#include <bit>

#include "ringrad/core/tensor.h"
#include "ringrad/data/byte_reader.h"

namespace ringrad {

/// A tensor on cpu:0 from row-major elements. Memory is allocated only after a check that the file
/// can hold what its header claims.
///
/// Throws:  DataError unless the file holds exactly these elements
Tensor read_array(ByteReader& file, DType dtype, const Shape& shape, std::endian order,
                  Where where);

}  // namespace ringrad
