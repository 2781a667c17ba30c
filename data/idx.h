// The IDX format of the MNIST family, plain or compressed with gzip.
//
//     byte   0 0        always
//            t          element type: 08 uint8, 0c int32, 0d float32, 0e float64
//            d          number of axes
//     4 d bytes         extents, big-endian, each 32 bits
//     the elements      row-major, big-endian, until the end of the file
//
// Format: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section
// "File formats".

#pragma once

#include <filesystem>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// The tensor in an IDX file.
///
/// Memory is allocated only after a check that the header claims no more than the file can hold.
///
/// Throws:  DataError, naming the file, if it is missing, is not IDX, holds fewer or more bytes
///          than its header claims, or is a damaged gzip file
Tensor read_idx(const std::filesystem::path& path, Where where = Where::current());

}  // namespace ringrad
