// The part of the interface of NCCL, NVIDIA's library of collectives, that is used here. It is
// declared anew so that no build needs nccl.h, and the library is looked for when it is first
// needed.
//
// Names, values and layouts are those of nccl.h since 2.14, the first version whose communicators
// do not block the host; nccl_header_test.cc compares them with the header where there is one.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "ringrad/core/base/error.h"

namespace ringrad::nccl {

struct Communicator;
using Comm = Communicator*;

struct UniqueId {
  char internal[128];
};

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class DataType : int {
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

enum class RedOp : int { sum = 0, product = 1, max = 2, min = 3, average = 4 };

constexpr int version_code(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

/// The configuration of a communicator as of 2.14; later versions append fields, and see from
/// `size` which are there.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = version_code(2, 14, 0);
  int blocking = 0;
};

struct Functions {
  Result (*get_version)(int* version);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Comm comm);
  Result (*get_unique_id)(UniqueId* id);
  Result (*comm_init_rank_config)(Comm* comm, int world_size, UniqueId id, int rank,
                                  Config* config);
  Result (*comm_get_async_error)(Comm comm, Result* error);
  Result (*comm_finalize)(Comm comm);
  Result (*comm_destroy)(Comm comm);
  Result (*comm_abort)(Comm comm);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void* in, void* out, std::size_t count, DataType dtype, RedOp op,
                       Comm comm, cudaStream_t stream);
  Result (*reduce_scatter)(const void* in, void* out, std::size_t out_count, DataType dtype,
                           RedOp op, Comm comm, cudaStream_t stream);
  Result (*all_gather)(const void* in, void* out, std::size_t in_count, DataType dtype, Comm comm,
                       cudaStream_t stream);
  Result (*broadcast)(const void* in, void* out, std::size_t count, DataType dtype, int root,
                      Comm comm, cudaStream_t stream);
  Result (*reduce)(const void* in, void* out, std::size_t count, DataType dtype, RedOp op, int root,
                   Comm comm, cudaStream_t stream);
  Result (*send)(const void* in, std::size_t count, DataType dtype, int to, Comm comm,
                 cudaStream_t stream);
  Result (*recv)(void* out, std::size_t count, DataType dtype, int from, Comm comm,
                 cudaStream_t stream);
};

struct Library {
  Functions functions;
  int version;  ///< 22809 is 2.28.9
};

/// "2.28.9"
std::string version_name(int version);

/// Opens the library in that file; "" stands for the one that RINGRAD_NCCL names, or libnccl.so.2.
///
/// Throws: CollectiveError if it is missing, lacks a function, is older than 2.14, or is meant for
///         real GPUs while those of this build are simulated
Library open(const std::string& file, Where where);

}  // namespace ringrad::nccl
