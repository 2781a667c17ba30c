#include "ringrad/parallel/comm/gpu/device_links.h"

#include "ringrad/core/gpu/cuda_check.h"

namespace ringrad {

bool DeviceLinks::can_access(Device from, Device to) {
  int can = 0;
  return from == to ||
         (cudaDeviceCanAccessPeer(&can, from.index, to.index) == cudaSuccess && can != 0);
}

bool DeviceLinks::asks_for_kernels(const RankSession& session) {
  return session.options().device_all_reduce != DeviceAlgorithm::plan &&
         session.world_size() <= cuda::kMaxKernelRanks;
}

void DeviceLinks::prepare_mailbox(cuda::Mailbox* mailbox, Device device, KernelPeer& own,
                                  Where where) {
  own.mailbox = mailbox;
  own.resident_blocks = cuda::max_resident_blocks(device, where);
  const DeviceGuard guard(device, where);
  // The memory's earlier uses come before this, and the first flag of any rank after it.
  const Stream stream = current_stream(device);
  RINGRAD_CUDA_CHECK(cudaMemsetAsync(mailbox, 0, sizeof *mailbox, stream.handle()), where);
  RINGRAD_CUDA_CHECK(cudaStreamSynchronize(stream.handle()), where);
  void* word = nullptr;
  RINGRAD_CUDA_CHECK(
      cudaHostAlloc(&word, sizeof(std::uint64_t), cudaHostAllocPortable | cudaHostAllocMapped),
      where);
  own.abort_word = new (word) std::uint64_t(0);
}

std::unique_ptr<DeviceLinks> link_devices(RankSession& session, Device device, Where where) {
  if (session.memory()->is_one_process()) return link_threads(session, device, where);
  return link_processes(session, device, where);
}

}  // namespace ringrad
