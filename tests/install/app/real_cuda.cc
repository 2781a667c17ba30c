// Uses the toolkit's runtime and Ringrad's build for CPUs in one file.

#include <cuda_runtime.h>

#include <cstdio>

#include "ringrad/ringrad.h"

int main() {
  int count = -1;
  const cudaError_t status = cudaGetDeviceCount(&count);
  const ringrad::Tensor x = ringrad::ones({2, 3});
  std::printf("%s, %lld elements\n", cudaGetErrorName(status), static_cast<long long>(x.numel()));
}
