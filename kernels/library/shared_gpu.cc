#include "ringrad/kernels/library/shared_gpu.h"

#include <array>
#include <atomic>

namespace ringrad {
namespace {

std::atomic<int>& num_shares(Device device) {
  static std::array<std::atomic<int>, kMaxCudaDevices> counts{};
  return counts[static_cast<unsigned>(device.index)];
}

}  // namespace

SharedGpu::SharedGpu(Device device) : device_(device) { ++num_shares(device); }
SharedGpu::~SharedGpu() { --num_shares(device_); }

bool is_shared(Device device) { return device.is_cuda() && num_shares(device) > 0; }

}  // namespace ringrad
