// Thread ranks that work on GPUs.

#pragma once

#include <algorithm>
#include <functional>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/host/ranks.h"

namespace ringrad::testing {

/// Rank r of n works on GPU r % num_devices, or r % the number of GPUs if there are fewer.
inline void on_gpus(int n, int num_devices, const std::function<void(Communicator&)>& body,
                    const GroupOptions& options = {}) {
  const int devices = std::min(num_devices, num_cuda_devices());
  run_ranks(
      n,
      [&](Communicator& comm) {
        const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % devices));
        body(comm);
        synchronize(default_device());
      },
      options);
}

}  // namespace ringrad::testing
