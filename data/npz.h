// NumPy's format for several arrays: a zip archive with one .npy member for each.
//
//     write_npz("batch.npz", {{"x", x}, {"y", y}});      numpy.load("batch.npz")["x"]
//     const Tensor x = read_npz("batch.npz", {"x"}).at("x");
//
// libzip reads and writes the archive. So this is a library of its own (//data:npz, ringrad::npz),
// and only programs that use it link libzip.
//
// Format: numpy.org/doc/stable/reference/generated/numpy.savez.html

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// All arrays by name, on cpu:0, as read_npy gives each; members whose names do not end in ".npy"
/// are left out. Members are stored or deflated, and their checksums are verified.
///
/// Memory is allocated only after a check that a member's compressed bytes can hold what its header
/// claims.
///
/// Throws:  DataError, naming the file and the member, if the archive is missing or damaged, if two
///          members have one name, for another compression or an encrypted member, and as read_npy
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path,
                                       Where where = Where::current());

/// The same for these names only; the others are not read. Throws also DataError, listing the
/// archive's names, for one that it lacks.
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path,
                                       const std::vector<std::string>& names,
                                       Where where = Where::current());

/// Writes tensors by name, deflated if asked for, as a whole or not at all
/// (core/file/atomic_file.h). Without tensors the archive is empty. Equal tensors give equal bytes,
/// whatever the time. Needs as much memory as the file, and the tensors' bytes once more.
///
/// DTypes:  all but bfloat16, which NumPy lacks
/// Throws:  DTypeError for bfloat16; ValueError for an empty name or one with a zero byte;
///          DataError if the file cannot be written
void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
               bool deflates = false, Where where = Where::current());

}  // namespace ringrad
