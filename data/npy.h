// NumPy's format for one array, plain or compressed with gzip.
//
//     bytes 0-5     93 N U M P Y
//     6-7           version: 1.0, 2.0 or 3.0
//     8-            length of the text: 2 bytes, from version 2.0 on 4 bytes, little-endian
//     text          {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//     the elements  row-major, or column-major if fortran_order is True
//
// Format: numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#pragma once

#include <filesystem>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The tensor in a .npy file, on cpu:0. Column-major elements are not moved: the strides say where
/// they are. Elements of big-endian machines are converted.
///
/// Memory is allocated only after a check that the header claims no more than the file can hold.
///
/// Throws:  DataError, naming the file, if it is missing, is damaged, or holds elements that the
///          library lacks, such as int8, complex numbers, records or Python objects
Tensor read_npy(const std::filesystem::path& path, Where where = Where::current());

/// Writes x row-major as version 1.0, as a whole or not at all (core/file/atomic_file.h).
///
/// DTypes:  all but bfloat16, which NumPy lacks
/// Throws:  DTypeError for bfloat16; DataError if the file cannot be written
void write_npy(const std::filesystem::path& path, const Tensor& x, Where where = Where::current());

}  // namespace ringrad
