// Tensor files: tensors by name in the safetensors format, with a checksum.
//
//     | 8 bytes: N | N bytes: header in JSON                                | the tensors' bytes |
//
//     {"__metadata__": {"crc32": "89abcdef"},
//      "fc.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}
//
// A file that a run writes more than once also carries that run's generation
// (nn/checkpoint/checkpoint.h), as twenty digits after the checksum:
//
//     "__metadata__": {"crc32": "89abcdef", "generation": "00001767225600000000"}
//
// Numbers are little-endian. Tensors are in row-major order, without gaps between them; in Python,
// safetensors.numpy.load_file opens such a file. The checksum covers the whole file, with zeros in
// place of its own eight digits. It has the same position in every file, so a reader can verify it
// before it trusts anything else. It detects every change of up to 32 consecutive bits, and misses
// one in 2^32 of all others.
//
// Format: huggingface.co/docs/safetensors; the checksum is our addition.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

/// Writes a file, replacing an existing one; if that fails, the existing file stays as it is
/// (core/file/atomic_file.h). The tensors may be on any device and have any strides.
///
/// Throws:  DataError if the file cannot be written; ValueError for a name that is not UTF-8, or is
///          "__metadata__"
void write_tensors(const std::filesystem::path& path, const StateDict& tensors,
                   Where where = Where::current());

/// Reads a file from write_tensors; the tensors are on cpu:0. Needs no more memory than the tensors
/// and the header. (read_safetensors opens files of other programs.)
///
/// Throws:  DataError that names the file and what is wrong with it, unless the file is exactly as
///          it was written
StateDict read_tensors(const std::filesystem::path& path, Where where = Where::current());

/// The same. Also sets `generation` to that of the file that it reads, or to 0 if the file has
/// none, even if another process replaces the file meanwhile.
StateDict read_tensors(const std::filesystem::path& path, std::int64_t& generation,
                       Where where = Where::current());

/// Reads a safetensors file of any program; the tensors are on cpu:0. A file that begins like those
/// of write_tensors must match its checksum; other files need none.
///
/// Throws:  DataError that names the file and what is wrong with it. For a dtype that the format
///          has and the library lacks, it names tensor and dtype
StateDict read_safetensors(const std::filesystem::path& path, Where where = Where::current());

/// The same for these tensors only. The others may have dtypes that the library lacks.
///
/// Throws:  as above; DataError if the file lacks a name
StateDict read_safetensors(const std::filesystem::path& path, const std::vector<std::string>& names,
                           Where where = Where::current());

/// The same without a copy: the tensors lie in the file's pages, which the system reads when they
/// are first used and shares between processes. Writing to a tensor changes its own copy of a page,
/// never the file. Tensors that are not aligned for their dtype are copied. A file with a checksum
/// is still read once, to verify it.
///
/// The file may be replaced or removed meanwhile, but must not be written to: another program that
/// shortens it would end this one with SIGBUS.
///
/// Throws:  as read_safetensors
StateDict map_safetensors(const std::filesystem::path& path, Where where = Where::current());
StateDict map_safetensors(const std::filesystem::path& path, const std::vector<std::string>& names,
                          Where where = Where::current());

/// The same as write_tensors, for generation `generation` > 0, which the file will carry.
///
/// Throws:  as write_tensors; DataError that names both generations if the existing file is of a
///          later one; DataError that asks the user to remove the existing file if its generation
///          cannot be read
void write_tensors(const std::filesystem::path& path, const StateDict& tensors,
                   std::int64_t generation, Where where = Where::current());

/// The facts at the beginning of a file, not verified.
struct TensorFileFacts {
  std::string crc32;            ///< eight hexadecimal digits
  std::int64_t generation = 0;  ///< 0 if the file has none
  std::uint64_t num_bytes = 0;
};

/// Empty if there is no such file, or if it does not begin like a tensor file of this version.
std::optional<TensorFileFacts> tensor_file_facts(const std::filesystem::path& path);

/// A CRC-32 as files hold it: eight lower-case hexadecimal digits.
std::string crc_digits(std::uint32_t crc);

/// The dtype's name in such files, and the dtype of a name.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_of_name(std::string_view name);

/// Returns false only if the file certainly does not exist; on any other error returns true, and
/// read_tensors reports it.
bool may_be_file(const std::filesystem::path& path);

}  // namespace ringrad::nn
