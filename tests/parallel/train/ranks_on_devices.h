// Thread ranks on the CPU, and with one GPU each; the GPUs are simulated if there are no others.

#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/ranks.h"

namespace ringrad::testing {

/// Calls body(communicator) on `world_size` ranks on the CPU, then again on GPUs, where tensors
/// that name no device are made on the rank's GPU.
inline void run_ranks_on_devices(int world_size, const std::function<void(Communicator&)>& body,
                                 const GroupOptions& options = {}) {
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    const bool is_gpu = type == DeviceType::cuda;
    if (is_gpu && num_cuda_devices() == 0) return;
    SCOPED_TRACE(is_gpu ? "on GPUs" : "on the CPU");
    run_ranks(
        world_size,
        [&](Communicator& comm) {
          const DefaultDeviceGuard guard(is_gpu ? Device(type, comm.rank() % num_cuda_devices())
                                                : Device());
          body(comm);
        },
        options);
  }
}

}  // namespace ringrad::testing
