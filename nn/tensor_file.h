// Tensor files: tensors by name in the safetensors format, with a checksum.
//
//     | 8 bytes: N | N bytes: header in JSON                                       | the tensors' bytes |
//
//     {"__metadata__": {"crc32": "89abcdef"},
//      "fc.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}
//
// A file that a run writes more than once also has the number of that run's generation (nn/checkpoint.h), in twenty
// digits behind the checksum: "__metadata__": {"crc32": "89abcdef", "generation": "00001767225600000000"}.
//
// Numbers are little-endian, tensors are in row-major order, one right behind the other; Python opens such a file
// with safetensors.numpy.load_file. The checksum is that of the whole file, with zeros in its own eight digits: it stands at
// the same place in every file, so that nothing of a file is believed before it matches. It finds every change of
// up to 32 bits in a row; of all others it misses one in 2^32.
//
// Format: huggingface.co/docs/safetensors; the checksum is ours.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

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

/// The same as write_tensors, for generation `generation` > 0, which the file will name.
///
/// Throws: as write_tensors; DataError that names both generations if a file of a later one is there, or that asks the
///         user to remove a file whose generation cannot be read
void write_tensors(const std::filesystem::path& path, const StateDict& tensors,
                   std::int64_t generation, Where where = Where::current());

/// What stands at the beginning of a file, which nobody has checked.
struct TensorFileFacts {
  std::string crc32;            ///< eight hexadecimal digits
  std::int64_t generation = 0;  ///< 0 if the file names none
  std::uint64_t num_bytes = 0;
};

/// Nothing if there is no such file, or it does not begin as a tensor file of this version.
std::optional<TensorFileFacts> tensor_file_facts(const std::filesystem::path& path);

/// A CRC-32 as files name it: eight lower-case hexadecimal digits.
std::string crc_digits(std::uint32_t crc);

/// The dtype's name in such files, and the dtype of a name.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_of_name(std::string_view name);

/// False if there is no such file. True if there is one, or if nobody can tell: read_tensors then says why.
bool may_be_file(const std::filesystem::path& path);

}  // namespace ringrad::nn
