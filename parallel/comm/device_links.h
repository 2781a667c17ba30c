// DeviceLinks: how the ranks of a group reach the memory and the streams of each other's GPUs. One per rank.
//
// Every rank has one GPU; several may have the same one, which processes may number differently. A place in a rank's memory has a name that all ranks
// understand (group_memory.h), and each rank has numbered events that all may wait for.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/error.h"
#include "core/stream.h"
#include "parallel/comm/all_reduce_kernels.h"
#include "parallel/comm/message_channel.h"
#include "parallel/comm/rank_session.h"

namespace ringrad {

class DeviceLinks {
 public:
  /// A rank's events: first those of collectives, none of which needs more; plans of 64 ranks in 8 segments take
  /// 1017. Then two for each message that may be on its way from this rank or to it (device_messages.h).
  static constexpr std::size_t kCollectiveEvents = 2048;
  static constexpr std::size_t kEvents = kCollectiveEvents + 2 * kMaxRanks * MessageChannel::kSlots;

  virtual ~DeviceLinks() = default;

  /// Shows the ranks each other. Called once on all of them, as part of the first collective on GPUs, which
  /// `operation` begins; until then a rank knows only itself.
  ///
  /// Throws: CollectiveError, CudaError
  virtual void meet(Operation& operation) = 0;

  /// True if two ranks have the same GPU, whatever number each of them gives it.
  virtual bool share_gpu(int a, int b) const = 0;
  /// True if kernels on this rank's GPU may touch that rank's memory.
  virtual bool has_access_to(int rank) const = 0;
  /// True if that holds for all ranks.
  virtual bool all_have_access() const = 0;

  // Memory.
  virtual std::byte* address(int rank, std::uintptr_t name) = 0;
  virtual std::uintptr_t name(const std::byte* own) const = 0;
  virtual bool is_visible(const std::byte* own) const = 0;
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) = 0;
  /// This rank leaves: keeps memory of allocate() for as long as another rank may use it.
  virtual void keep(std::shared_ptr<std::byte> memory) = 0;

  /// What kernels of other ranks need of a rank (all_reduce_kernels.h), if the group's options ask for kernels,
  /// there are few enough ranks, and all have access to each other.
  struct KernelPeer {
    cuda::Mailbox* mailbox = nullptr;     ///< null: no kernels
    std::uint64_t* abort_word = nullptr;  ///< pinned; null if it is another process's
    int resident_blocks = 0;
  };
  virtual KernelPeer kernel_peer(int rank) = 0;

  /// Event `number` of a rank. A rank asks for another's only after that one has asked for it and said so.
  virtual cudaEvent_t event(int rank, std::size_t number, Where where) = 0;

  /// After a failure, when no rank queues anything any more: waits for what other ranks have queued, as far as it
  /// can be known. What another process has queued cannot.
  virtual void settle() noexcept {}

  /// Called on all ranks when a collective has been queued on `stream`.
  virtual void after_queueing(const Stream& /*stream*/, Where /*where*/) {}

  /// True if kernels on `from` may touch the memory of `to`, once told so.
  static bool can_access(Device from, Device to);

 protected:
  static bool asks_for_kernels(const RankSession& session);
  /// Makes a mailbox ready, and fills in `own`, whose abort word is to be freed with cudaFreeHost.
  static void prepare_mailbox(cuda::Mailbox* mailbox, Device device, KernelPeer& own, Where where);
};

/// A rank with this GPU.
std::unique_ptr<DeviceLinks> link_devices(RankSession& session, Device device, Where where);

}  // namespace ringrad
