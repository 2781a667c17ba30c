// Tensor files: tensors by name in the safetensors format, with a checksum.
//
//     | 8 bytes: N | N bytes: header in JSON                                       | the tensors' bytes |
//
//     {"__metadata__": {"crc32": "89abcdef"},
//      "fc.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}
//
// Numbers are little-endian, tensors are in row-major order, one right behind the other; Python opens such a file
// with safetensors.numpy.load_file. The checksum is that of the whole file, with zeros in its own eight digits: it stands at
// the same place in every file, so that nothing of a file is believed before it matches. It finds every change of
// up to 32 bits in a row; of all others it misses one in 2^32.
//
// Format: huggingface.co/docs/safetensors; the checksum is ours.

#pragma once

#include <filesystem>

#include "nn/state_dict.h"

namespace ringrad::nn {

/// Writes a file in place of the one that may be there, which stays as it is if that fails (atomic_file.h); a link is
/// replaced, not followed. The tensors may be on any device, of any strides.
///
/// Throws: DataError if the file cannot be written; ValueError for a name that is not UTF-8, or "__metadata__"
void write_tensors(const std::filesystem::path& path, const StateDict& tensors,
                   Where where = Where::current());

/// Reads what write_tensors has written; the tensors are on cpu:0. Needs no more memory than they take, and their
/// header.
///
/// Throws: DataError that names the file, and what is wrong with it, unless it is just as it was written
StateDict read_tensors(const std::filesystem::path& path, Where where = Where::current());

/// False if there is no such file. True if there is one, or if nobody can tell: read_tensors then says why.
bool may_be_file(const std::filesystem::path& path);

}  // namespace ringrad::nn
