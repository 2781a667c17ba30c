// What ranks exchange before and after they write or read a checkpoint.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

namespace ringrad {

/// Every rank's text, or facts, on all ranks. All ranks must call each of these two functions.
std::vector<std::string> texts_of_all(const std::string& ours, Communicator& comm, Where where);
std::vector<std::vector<PieceFacts>> facts_of_all(const std::vector<PieceFacts>& ours,
                                                  Communicator& comm, Where where);

/// The largest generation (nn/checkpoint/generation.h) of any rank. From now on all ranks have it.
/// All ranks must call this.
std::int64_t agree_on_generation(Communicator& comm, Where where);

/// Throws DataError "rank 2: ..." on all ranks, for the lowest rank whose error is not empty. All
/// ranks must call this.
void throw_of_any(const std::string& error, Communicator& comm, Where where);

/// The message of the exception that body() throws; empty if it throws none.
std::string error_of(const std::function<void()>& body);

/// Runs `body` on every rank. Throws as throw_of_any, for errors of any type. All ranks must call
/// this.
void on_all_ranks(Communicator& comm, Where where, const std::function<void()>& body);

/// A contiguous copy in host memory of its own.
Tensor host_copy(const Tensor& x, Where where);

/// CRC-32 of the tensor's bytes in row-major order. REQUIRES: it is contiguous, on a CPU
std::uint32_t crc_of(const Tensor& host);

}  // namespace ringrad
