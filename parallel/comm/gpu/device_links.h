// DeviceLinks: how the ranks of a group reach the memory and the streams of each other's GPUs. One
// per rank.
//
// Every rank has one GPU. Several ranks may share a GPU, which processes may number differently. A
// place in a rank's memory has a name that is valid on all ranks (group_memory.h), and each rank
// has numbered events that all ranks may wait for.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/all_reduce_kernels.h"
#include "ringrad/parallel/comm/memory/message_channel.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class DeviceLinks {
 public:
  /// A rank's events. The first ones are for collectives: half of them for one, half for the next,
  /// and no collective needs more (plans of 64 ranks in 8 segments take 1017). Two follow for each
  /// message that may be in flight from or to this rank (device_messages.h).
  static constexpr std::size_t kCollectiveEvents = 2048;
  static constexpr std::size_t kEvents = kCollectiveEvents + 2 * kMaxRanks * MessageChannel::kSlots;

  virtual ~DeviceLinks() = default;

  /// Introduces the ranks' GPUs to each other. Called once on all ranks, as part of the first
  /// collective on GPUs, which `operation` begins; until then a rank knows only its own.
  ///
  /// Throws: CollectiveError, CudaError
  virtual void meet(Operation& operation) = 0;

  /// True if two ranks have the same GPU, even if they number it differently.
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
  /// When this rank leaves: keeps memory of allocate() for as long as another rank may use it.
  virtual void keep(std::shared_ptr<std::byte> memory) = 0;

  /// A rank's data that kernels of other ranks need (all_reduce_kernels.h). Set if the group's
  /// options ask for kernels, there are few enough ranks, and all have access to each other.
  struct KernelPeer {
    cuda::Mailbox* mailbox = nullptr;     ///< null: no kernels
    std::uint64_t* abort_word = nullptr;  ///< pinned; null if it is another process's
    int resident_blocks = 0;
  };
  virtual KernelPeer kernel_peer(int rank) = 0;

  /// Event `number` of a rank. A rank may ask for another rank's event only after the owner has
  /// asked for it and published that.
  virtual cudaEvent_t event(int rank, std::size_t number, Where where) = 0;

  /// After a failure, when no rank queues work any more: waits for the work that other ranks of
  /// this process have queued. The work of other processes is not known.
  virtual void settle() noexcept {}

  /// Called on all ranks when a collective has been queued on `stream`.
  virtual void after_queueing(const Stream& /*stream*/, Where /*where*/) {}

  /// True if kernels on `from` may touch the memory of `to`, once access is enabled.
  static bool can_access(Device from, Device to);

 protected:
  static bool asks_for_kernels(const RankSession& session);
  /// Prepares a mailbox, and fills in `own`, whose abort word must be freed with cudaFreeHost.
  static void prepare_mailbox(cuda::Mailbox* mailbox, Device device, KernelPeer& own, Where where);
};

/// The links of a rank with this GPU; they differ for ranks that are threads and processes.
std::unique_ptr<DeviceLinks> link_threads(RankSession& session, Device device, Where where);
std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where);
std::unique_ptr<DeviceLinks> link_devices(RankSession& session, Device device, Where where);

}  // namespace ringrad
