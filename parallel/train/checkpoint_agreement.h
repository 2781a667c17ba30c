// What ranks tell each other before a checkpoint is written or read, and after.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/train/checkpoint_index.h"

namespace ringrad {

/// What each rank says, on all ranks. All ranks call it, as the two below.
std::vector<std::string> texts_of_all(const std::string& ours, Communicator& comm, Where where);
std::vector<std::vector<PieceFacts>> facts_of_all(const std::vector<PieceFacts>& ours,
                                                  Communicator& comm, Where where);

/// The largest generation (nn/generation.h) of all ranks, which all of them have from now on.
std::int64_t agree_on_generation(Communicator& comm, Where where);

/// Throws DataError "rank 2: ..." on all ranks, of the lowest rank whose error is not empty.
void throw_of_any(const std::string& error, Communicator& comm, Where where);

/// The message of what body() throws; empty if it does not.
std::string error_of(const std::function<void()>& body);

/// The text of the folder's index; empty without one.
///
/// Throws: DataError unless it is a file of at most 16 MiB that can be read
std::string read_index(const std::filesystem::path& folder, Where where);
constexpr const char* kIndexName = "index.json";

/// A contiguous copy in memory of its own.
Tensor host_copy(const Tensor& x, Where where);

/// Of the tensor's bytes in row-major order. REQUIRES: it is contiguous, on a CPU
std::uint32_t crc_of(const Tensor& host);

}  // namespace ringrad
