// CUDA's status codes as exceptions.
//
//     RINGRAD_CUDA_CHECK(cudaEventRecord(event, stream), where);
//     CudaError: cuda: the call must succeed; got cudaErrorInvalidResourceHandle (invalid resource
//                handle) from cudaEventRecord(event, stream)  [model.cc:41]
//
// A kernel's fault shows at a later call and disables its device for good. On simulated devices the
// message ends with the kernel, block and thread at fault (sim/README.md).

#pragma once

#include <cuda_runtime.h>

#include "ringrad/core/base/error.h"

namespace ringrad {

[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, Where where);

/// The same for destructors, which must not throw: the error goes to stderr, once per process.
void report_cuda_error(cudaError_t status, const char* call) noexcept;

}  // namespace ringrad

// A macro because the message quotes the call.
#define RINGRAD_CUDA_CHECK(call, where)                          \
  do {                                                           \
    const cudaError_t ringrad_status = (call);                   \
    if (ringrad_status != cudaSuccess) [[unlikely]]              \
      ::ringrad::throw_cuda_error(ringrad_status, #call, where); \
  } while (false)
