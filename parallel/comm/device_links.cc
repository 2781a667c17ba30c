#include "parallel/comm/device_links.h"

#include <array>
#include <new>
#include <utility>
#include <vector>

#include "core/cuda_check.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace ringrad {
namespace {

bool can_access(Device from, Device to) {
  int can = 0;
  return from == to ||
         (cudaDeviceCanAccessPeer(&can, from.index, to.index) == cudaSuccess && can != 0);
}

// Lets kernels of the current GPU touch the memory of another one. False if the hardware cannot.
bool enable_access(Device from, Device to, Where where) {
  if (from == to) return true;
  if (!can_access(from, to)) return false;
  const cudaError_t status = cudaDeviceEnablePeerAccess(to.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return true;
  }
  RINGRAD_CUDA_CHECK(status, where);
  return true;
}

bool asks_for_kernels(RankSession& session) {
  return session.options().device_all_reduce != DeviceAlgorithm::plan &&
         session.world_size() <= cuda::kMaxKernelRanks;
}

// --- Threads of one process ---

// What a rank shows the others: all are in one address space.
struct ThreadCard {
  Device device;
  std::array<cudaEvent_t, DeviceLinks::kEvents> events{};
  std::shared_ptr<std::byte> mail;
  DeviceLinks::KernelPeer kernels;

  explicit ThreadCard(Device device) : device(device) {}
  ~ThreadCard() {
    for (cudaEvent_t event : events)
      if (event != nullptr) cudaEventDestroy(event);
    if (kernels.abort_word != nullptr) cudaFreeHost(kernels.abort_word);
  }
  ThreadCard(const ThreadCard&) = delete;
  ThreadCard& operator=(const ThreadCard&) = delete;
};

class ThreadLinks final : public DeviceLinks {
 public:
  ThreadLinks(RankSession& session, Operation& operation, Device device)
      : own_(std::make_shared<ThreadCard>(device)), rank_(session.rank()) {
    if (asks_for_kernels(session)) make_mailbox(session.options().kernel_bytes, operation.where);
    // Others may still wait for this rank's events when it has left.
    session.memory()->keep({own_, reinterpret_cast<std::byte*>(own_.get())});
    session.exchange(operation, reinterpret_cast<std::uintptr_t>(own_.get()));
    const DeviceGuard guard(device, operation.where);
    for (int r = 0; r < session.world_size(); ++r) {
      cards_.push_back(r == rank_ ? own_.get()
                                  : reinterpret_cast<ThreadCard*>(session.group().buffer_of(r)));
      has_access_.push_back(enable_access(device, cards_.back()->device, operation.where));
    }
  }

  bool all_have_access() const override {
    for (const ThreadCard* a : cards_)
      for (const ThreadCard* b : cards_)
        if (!can_access(a->device, b->device)) return false;
    return true;
  }
  KernelPeer kernel_peer(int rank) const override { return cards_[rank]->kernels; }

  Device device_of(int rank) const override { return cards_[rank]->device; }
  bool has_access_to(int rank) const override { return has_access_[rank]; }
  std::byte* address(int, std::uintptr_t name) const override {
    return reinterpret_cast<std::byte*>(name);
  }
  std::uintptr_t name(const std::byte* own) const override {
    return reinterpret_cast<std::uintptr_t>(own);
  }
  bool is_visible(const std::byte*) const override { return true; }

  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    const Tensor memory = empty({static_cast<std::int64_t>(bytes)},
                                {.dtype = DType::uint8, .device = own_->device}, where);
    return {memory.raw_data(), [memory](std::byte*) {}};
  }

  cudaEvent_t event(int rank, std::size_t number, Where where) override {
    cudaEvent_t& event = cards_[rank]->events[number];
    if (event == nullptr) {
      RINGRAD_ASSERT(rank == rank_);
      const DeviceGuard guard(own_->device, where);
      RINGRAD_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), where);
    }
    return event;
  }

 private:
  void make_mailbox(std::size_t capacity, Where where) {
    const std::size_t bytes = cuda::mailbox_bytes(capacity);
    own_->mail = allocate(bytes, where);
    own_->kernels.mailbox = reinterpret_cast<cuda::Mailbox*>(own_->mail.get());
    own_->kernels.resident_blocks = cuda::max_resident_blocks(own_->device, where);
    const DeviceGuard guard(own_->device, where);
    RINGRAD_CUDA_CHECK(cudaMemset(own_->mail.get(), 0, sizeof(cuda::Mailbox)), where);
    RINGRAD_CUDA_CHECK(cudaDeviceSynchronize(), where);  // zeros before anybody raises a flag
    void* word = nullptr;
    RINGRAD_CUDA_CHECK(
        cudaHostAlloc(&word, sizeof(std::uint64_t), cudaHostAllocPortable | cudaHostAllocMapped),
        where);
    own_->kernels.abort_word = new (word) std::uint64_t(0);
  }

  const std::shared_ptr<ThreadCard> own_;
  const int rank_;
  std::vector<ThreadCard*> cards_;  // (world_size)
  std::vector<bool> has_access_;    // (world_size)
};

}  // namespace

std::unique_ptr<DeviceLinks> link_devices(RankSession& session, Operation& operation,
                                          Device device) {
  return std::make_unique<ThreadLinks>(session, operation, device);
}

}  // namespace ringrad
