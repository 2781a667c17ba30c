// DeviceLinks of ranks that are threads of one process: memory and events have the same names for
// all.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/gpu/device_links.h"

namespace ringrad {
namespace {

// Lets kernels of the current GPU touch the memory of another one, that of its pool too, whence
// tensors come without caching. False if the hardware cannot.
bool enable_access(Device from, Device to, Where where) {
  if (from == to) return true;
  if (!DeviceLinks::can_access(from, to)) return false;
  cudaMemPool_t pool = nullptr;
  if (cudaDeviceGetDefaultMemPool(&pool, to.index) == cudaSuccess) {
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = from.index;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    RINGRAD_CUDA_CHECK(cudaMemPoolSetAccess(pool, &access, 1), where);
  } else {
    cudaGetLastError();  // a GPU without pools
  }
  const cudaError_t status = cudaDeviceEnablePeerAccess(to.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return true;
  }
  RINGRAD_CUDA_CHECK(status, where);
  return true;
}

// What a rank shows the others: all are in one address space.
struct ThreadCard : std::enable_shared_from_this<ThreadCard> {
  Device device;
  std::array<cudaEvent_t, DeviceLinks::kEvents> events{};
  std::shared_ptr<std::byte> mail;
  std::vector<std::shared_ptr<std::byte>> kept;
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
  ThreadLinks(RankSession& session, Device device, Where where)
      : session_(session), own_(std::make_shared<ThreadCard>(device)), rank_(session.rank()) {
    if (asks_for_kernels(session)) {
      own_->mail = allocate(cuda::mailbox_bytes(session.options().kernel_bytes), where);
      prepare_mailbox(reinterpret_cast<cuda::Mailbox*>(own_->mail.get()), device, own_->kernels,
                      where);
    }
  }

  // No rank takes its card away before all have it: a rank that has left may still be waited for.
  void meet(Operation& operation) override {
    exchange_cards(operation);
    const DeviceGuard guard(own_->device, operation.where);
    for (const auto& card : cards_)
      has_access_.push_back(enable_access(own_->device, card->device, operation.where));
  }

  void settle() noexcept override {
    for (const auto& card : cards_) {
      int before = 0;
      cudaGetDevice(&before);
      cudaSetDevice(card->device.index);
      cudaDeviceSynchronize();
      cudaSetDevice(before);
    }
  }

  bool all_have_access() const override {
    for (const auto& a : cards_)
      for (const auto& b : cards_)
        if (!can_access(a->device, b->device)) return false;
    return true;
  }
  KernelPeer kernel_peer(int rank) override { return cards_[rank]->kernels; }

  bool share_gpu(int a, int b) const override { return cards_[a]->device == cards_[b]->device; }
  bool has_access_to(int rank) const override { return has_access_[rank]; }
  std::byte* address(int, std::uintptr_t name) override {
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

  // A rank that has met this one holds its card until its own queued work is done.
  void keep(std::shared_ptr<std::byte> memory) override { own_->kept.push_back(std::move(memory)); }

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
  void exchange_cards(Operation& operation) {
    const RankGroup::Inside inside(session_.group(), operation);
    session_.exchange(operation, reinterpret_cast<std::uintptr_t>(own_.get()));
    for (int r = 0; r < session_.world_size(); ++r)
      cards_.push_back(
          r == rank_
              ? own_
              : reinterpret_cast<ThreadCard*>(session_.group().buffer_of(r))->shared_from_this());
    session_.exchange(operation, 0);
  }

  RankSession& session_;
  const std::shared_ptr<ThreadCard> own_;
  const int rank_;
  std::vector<std::shared_ptr<ThreadCard>> cards_;  // (world_size)
  std::vector<bool> has_access_;                    // (world_size)
};

}  // namespace

std::unique_ptr<DeviceLinks> link_threads(RankSession& session, Device device, Where where) {
  return std::make_unique<ThreadLinks>(session, device, where);
}

}  // namespace ringrad
