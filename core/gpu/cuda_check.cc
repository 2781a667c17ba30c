#include "ringrad/core/gpu/cuda_check.h"

#include <cuda_flavour.h>

#include <cstdio>
#include <string>

namespace ringrad {

void throw_cuda_error(cudaError_t status, const char* call, Where where) {
  std::string report = cuda_report();
  if (!report.empty()) report = ": " + report;
  cudaGetLastError();  // clears a non-sticky error, which the next launch would report again
  throw CudaError(concat("cuda: the call must succeed; got ", cudaGetErrorName(status), " (",
                         cudaGetErrorString(status), ") from ", call, report),
                  where);
}

void report_cuda_error(cudaError_t status, const char* call) noexcept {
  static const bool reported [[maybe_unused]] = [&] {
    std::fprintf(stderr, "ringrad: %s failed with %s while freeing a resource\n", call,
                 cudaGetErrorName(status));
    return true;
  }();
}

}  // namespace ringrad
