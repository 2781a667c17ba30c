// DeviceLinks of ranks that are processes of one machine: each shows the others what they can open.
//
//     rank 0's card        GPU       its UUID, since processes may number GPUs differently
//                          segments  [ handle, bytes | handle, bytes | ... ]  from cudaMalloc
//                          events    [ handle | handle | ... ]                kept like segments
//                                                                             while the group lives
//
// A card lies in the memory that all ranks share. Its owner fills in an entry before it publishes
// anything that depends on it; other ranks open the entry when they first need it. A place in a
// rank's memory is named by its segment's number and its distance from the segment's begin. Tensors
// that lie elsewhere are copied to a segment and back; tensors that empty_shared() makes on a GPU
// need no copy.
//
// Memory and events must not go while other processes use them, or have queued work that does. So
// each card counts its users; a rank is a user until it has left and its work is done. A rank that
// leaves gives the others a second to leave as well. If they do not, it keeps its memory and events
// until its next group finds that no process uses them, or its process ends. They always stay until
// the process ends if a user has died, or if a GPU may wait forever (device_runner.h).

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/gpu/device_links.h"
#include "ringrad/parallel/comm/gpu/process_exports.h"

namespace ringrad {
namespace {

constexpr auto kLongestFarewell = std::chrono::seconds(1);
constexpr auto kLook = std::chrono::milliseconds(1);
// A name holds a segment's number above these bits, and the distance from its begin in them.
constexpr int kSegmentShift = 40;
constexpr std::size_t kMaxSegments = ProcessCard::kMaxSegments;

// Keeps the exports of groups that this rank has left and other ranks may not have.
void retire(std::shared_ptr<ProcessExports> exports) {
  static std::mutex mutex;
  // The end of the process frees the rest.
  static auto& retired = *new std::vector<std::shared_ptr<ProcessExports>>;
  const std::lock_guard lock(mutex);
  if (exports) retired.push_back(std::move(exports));
  std::erase_if(retired, [](const auto& old) { return old->nobody_uses_them(); });
}

cudaUUID_t uuid_of(Device device, Where where) {
  const DeviceGuard exists(device, where);
  cudaDeviceProp properties;
  RINGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index), where);
  return properties.uuid;
}

// --- Links ---

class ProcessLinks final : public DeviceLinks {
 public:
  ProcessLinks(RankSession& session, Device device, Where where)
      : session_(session),
        rank_(session.rank()),
        device_(device),
        where_(where),
        exports_(std::make_shared<ProcessExports>(
            device, session.memory()->allocate(sizeof(ProcessCard), where))) {
    retire(nullptr);
    ProcessCard& own = exports_->card();
    own.gpu = uuid_of(device, where);
    if (!asks_for_kernels(session)) return;
    mail_ = allocate(cuda::mailbox_bytes(session.options().kernel_bytes), where);
    prepare_mailbox(reinterpret_cast<cuda::Mailbox*>(mail_.get()), device, own_kernels_, where);
    own.mailbox = name(mail_.get());
    own.resident_blocks = own_kernels_.resident_blocks;
  }

  // No rank takes its card away before all have registered as its users.
  void meet(Operation& operation) override {
    RankGroup& group = session_.group();
    const RankGroup::Inside inside(group, operation);
    session_.exchange(operation,
                      group.distance(rank_, reinterpret_cast<const std::byte*>(&exports_->card())));
    for (int r = 0; r < session_.world_size(); ++r) {
      auto* card = reinterpret_cast<ProcessCard*>(group.address(r, group.buffer_of(r)));
      peers_.push_back({.card = r == rank_ ? &exports_->card() : card});
      if (r != rank_) card->num_users.fetch_add(1, std::memory_order_relaxed);
    }
    session_.exchange(operation, 0);
  }

  // REQUIRES: what this rank has queued is done
  ~ProcessLinks() override {
    const DeviceGuard guard(device_, where_);
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      for (std::size_t i = 0; i < kMaxSegments; ++i) close_segment(peers_[r], i);
      for (const cudaEvent_t event : peers_[r].events)
        if (event != nullptr) cudaEventDestroy(event);
      if (static_cast<int>(r) != rank_)
        peers_[r].card->num_users.fetch_sub(1, std::memory_order_release);
    }
    if (own_kernels_.abort_word != nullptr) cudaFreeHost(own_kernels_.abort_word);
    mail_.reset();
    // Ranks that work together leave together, as a rule.
    for (RunningTime waited(kLook); !exports_->nobody_uses_them() &&
                                    session_.group().failed_rank() < 0 &&
                                    waited.advance() < kLongestFarewell;)
      std::this_thread::sleep_for(kLook);
    retire(std::move(exports_));
  }

  bool share_gpu(int a, int b) const override {
    return std::memcmp(&peers_[a].card->gpu, &peers_[b].card->gpu, sizeof(cudaUUID_t)) == 0;
  }
  bool has_access_to(int) const override {
    return true;
  }  // or opening its memory would have failed
  bool all_have_access() const override { return true; }
  std::byte* address(int rank, std::uintptr_t name) override {
    const auto segment = static_cast<std::int64_t>(name >> kSegmentShift);
    const std::uintptr_t distance = name & ((std::uintptr_t{1} << kSegmentShift) - 1);
    return (rank == rank_ ? exports_->begin(segment) : open_segment(rank, segment)) + distance;
  }
  std::uintptr_t name(const std::byte* own) const override {
    const std::int64_t segment = exports_->find(own);
    RINGRAD_ASSERT(segment >= 0);
    return (static_cast<std::uintptr_t>(segment) << kSegmentShift) +
           static_cast<std::uintptr_t>(own - exports_->begin(segment));
  }
  bool is_visible(const std::byte* own) const override { return exports_->find(own) >= 0; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    return {exports_->allocate(bytes, where),
            [exports = exports_](std::byte* p) { exports->release(p); }};
  }

  // The segments stay until they have no user; nothing else is placed in them.
  void keep(std::shared_ptr<std::byte>) override {}

  KernelPeer kernel_peer(int rank) override {
    if (rank == rank_) return own_kernels_;
    const ProcessCard& card = *peers_[rank].card;
    if (card.resident_blocks == 0) return {};
    return {.mailbox = reinterpret_cast<cuda::Mailbox*>(address(rank, card.mailbox)),
            .abort_word = nullptr,
            .resident_blocks = card.resident_blocks};
  }

  // A simulated GPU works only while its process waits for it (sim/README.md), and others wait for
  // its work.
  void after_queueing(const Stream& stream, Where where) override {
    if (is_cuda_simulated()) stream.synchronize(where);
    const DeviceGuard guard(device_, where);
    for (Peer& peer : peers_)
      for (std::size_t i = 0; i < kMaxSegments; ++i)
        if (peer.segments[i] != nullptr &&
            peer.card->segments[i].retired.load(std::memory_order_acquire))
          close_segment(peer, i);
  }

  cudaEvent_t event(int rank, std::size_t number, Where where) override {
    const DeviceGuard guard(device_, where);
    if (rank != rank_) {
      std::vector<cudaEvent_t>& events = peers_[rank].events;
      events.resize(kEvents, nullptr);
      if (events[number] == nullptr)
        RINGRAD_CUDA_CHECK(
            cudaIpcOpenEventHandle(&events[number], peers_[rank].card->events[number]), where);
      return events[number];
    }
    return exports_->event(number, where);
  }

 private:
  // Another rank, as far as it was needed.
  struct Peer {
    ProcessCard* card = nullptr;
    std::array<void*, kMaxSegments> segments{};
    std::vector<cudaEvent_t> events = {};
  };

  // A place gets its next segment only when all have closed the one before.
  std::byte* open_segment(int rank, std::int64_t number) {
    const std::size_t place = static_cast<std::size_t>(number) % kMaxSegments;
    void*& segment = peers_[rank].segments[place];
    if (segment == nullptr) {
      const DeviceGuard guard(device_, where_);
      ProcessCard::Segment& entry = peers_[rank].card->segments[place];
      const cudaError_t status =
          cudaIpcOpenMemHandle(&segment, entry.handle, cudaIpcMemLazyEnablePeerAccess);
      if (status != cudaSuccess) segment = nullptr;
      RINGRAD_CUDA_CHECK(status, where_);
      entry.num_open.fetch_add(1, std::memory_order_relaxed);
    }
    return static_cast<std::byte*>(segment);
  }

  static void close_segment(Peer& peer, std::size_t place) noexcept {
    void*& segment = peer.segments[place];
    if (segment == nullptr) return;
    cudaIpcCloseMemHandle(segment);
    segment = nullptr;
    peer.card->segments[place].num_open.fetch_sub(1, std::memory_order_release);
  }

  RankSession& session_;
  const int rank_;
  const Device device_;
  const Where where_;
  std::shared_ptr<ProcessExports> exports_;
  std::shared_ptr<std::byte> mail_;
  KernelPeer own_kernels_;
  std::vector<Peer> peers_;  // (world_size)
};

}  // namespace

std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where) {
  return std::make_unique<ProcessLinks>(session, device, where);
}

}  // namespace ringrad
