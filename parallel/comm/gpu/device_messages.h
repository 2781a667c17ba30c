// DeviceMessages: one rank's messages from its GPU, and from other ranks' GPUs. As in collectives
// (device_runner.h), hosts tell each other what they have queued, events keep the order, and no
// host waits for a GPU.
//
//     sender's stream     | x ready | wait taken #k-4 | x -> slot | sent #k | x is free
//     its host                                                      publishes sent #k
//     receiver's host     has seen it
//     receiver's stream                           | wait sent #k | slot -> y | taken #k | y ready
//     its host                                                                 publishes taken #k
//
// A slot is memory of the sender's GPU: one per receiver and place on the channel
// (message_channel.h), allocated when it is first used or too small. Its two events are the
// sender's `sent` and the receiver's `taken`. Their numbers follow those of collectives
// (device_links.h), and are used again with the slot. A rank that records an event again has seen
// the other rank publish its wait for the previous record.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/device_links.h"
#include "ringrad/parallel/comm/memory/message_channel.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class DeviceMessages {
 public:
  /// REQUIRES: the ranks have met by `links`, which outlive it
  DeviceMessages(RankSession& session, DeviceLinks& links, Device device);
  /// Messages that were not received outlive their sender; messages of a process last until it
  /// ends.
  ~DeviceMessages();
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  /// Queues a message on the current stream, when there is a slot for it. Throws: as wait_for_slot;
  /// CudaError
  void send(MessageChannel& channel, Operation& operation, const std::byte* elements);

  /// Queues the receipt of the message that wait_for_message has found under the name `sent`, into
  /// memory of this GPU.
  ///
  /// Throws: as check_peer_lives; CudaError
  void receive(MessageChannel& channel, const Operation& operation, std::uintptr_t sent,
               std::byte* elements);

  /// Throws: CollectiveError, and breaks the group, if the peer's process has ended
  void check_peer_lives(const Operation& operation) const;

  /// True if no receiver still needs this rank's process: each has copied this rank's messages, has
  /// left without, or has ended.
  bool all_are_taken() noexcept;

 private:
  struct Slot {
    std::shared_ptr<std::byte> memory;  // none before its first message
    std::size_t bytes;
    Stream order;  // in which the memory was allocated, and goes back
    // Of the latest message in it.
    std::uint64_t sequence = 0;
    const MessageChannel* channel = nullptr;
  };
  enum class End : std::size_t { sent, taken };

  static std::size_t event_number(int peer, std::uint64_t sequence, End end);
  bool is_taken(int peer, const Slot& slot);
  void record(int peer, std::uint64_t sequence, End end, const Stream& stream, Where where);
  void wait_for(int peer, std::uint64_t sequence, End end, const Stream& stream, Where where);

  RankSession& session_;
  DeviceLinks& links_;
  const Device device_;
  std::vector<Slot> slots_;  // (world_size, kSlots)
};

}  // namespace ringrad
