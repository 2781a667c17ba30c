// MessageChannel: messages from one rank to one other, in order, through a few slots.
//
//     sent  = 5      slot   0    1    2    3         message #k lies in slot (k - 1) % kSlots
//     taken = 3           [ #5 |    |    | #4 ]      in use: taken < k <= sent
//
// The sender owns `sent` and the slots not in use, the receiver owns `taken` and the slots in use;
// each hands slots over by releasing its counter. Channels lie in the memory that all ranks share.
// The elements of a message lie in the sender's own memory, on its CPU (Outbox) or its GPU
// (device_messages.h), as the slot says. The sender keeps that memory for the next message of the
// slot.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringrad/parallel/comm/memory/rank_group.h"

namespace ringrad {

struct MessageChannel {
  static constexpr std::uint64_t kSlots = 4;

  struct Slot {
    DType dtype = DType::float32;
    DeviceType device = DeviceType::cpu;
    std::int64_t count = 0;
    std::uintptr_t elements = 0;  // distance from the sender's base, or a name (device_links.h)
  };

  // A line each: the two ends write them at the same time.
  alignas(64) std::atomic<std::uint64_t> sent{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  std::array<Slot, kSlots> slots;

  /// The place of message #sequence, counted from 1.
  Slot& slot(std::uint64_t sequence) { return slots[(sequence - 1) % kSlots]; }
};

/// One channel for each ordered pair of ranks.
class MessageChannels {
 public:
  static std::size_t shared_bytes(int world_size);
  static void make_shared(std::byte* shared, int world_size);

  /// REQUIRES: shared was made for this world_size
  MessageChannels(std::byte* shared, int world_size)
      : channels_(reinterpret_cast<MessageChannel*>(shared)), world_size_(world_size) {}

  MessageChannel& between(int from, int to) const {
    return channels_[static_cast<std::size_t>(from) * world_size_ + to];
  }

 private:
  MessageChannel* channels_;
  int world_size_;
};

// A message in four steps. REQUIRES: operation.call says what the elements are and who is at the
// other end; operation.sequence is the message's number.

// next_entry is RankSession::next_entry().

/// Waits until the message has a slot.
///
/// Throws: CollectiveError, and breaks the group, if the receiver has left, waits for this rank in
///         a collective instead, or does not come in time
void wait_for_slot(RankGroup& group, MessageChannel& channel, Operation& operation,
                   std::uint64_t next_entry);

/// Publishes the message, whose elements lie on `device` under the name `elements`.
void publish_sent(RankGroup& group, MessageChannel& channel, const Operation& operation,
                  DeviceType device, std::uintptr_t elements);

/// Waits for the message.
///
/// Throws: as wait_for_slot, and if the message is of another dtype or size
const MessageChannel::Slot& wait_for_message(RankGroup& group, MessageChannel& channel,
                                             Operation& operation, std::uint64_t next_entry);

/// Publishes that the message's slot is free.
void publish_taken(RankGroup& group, MessageChannel& channel, const Operation& operation);

/// Keeps messages from the CPU to one rank until they are taken.
class Outbox {
 public:
  /// Sends a copy of the elements. Throws: as wait_for_slot
  void send(RankGroup& group, MessageChannel& channel, Operation& operation,
            std::uint64_t next_entry, const std::byte* elements);

  /// Messages to `receiver` that it has not taken outlive their sender, until it takes them or
  /// leaves.
  void leave_to(RankGroup& group, int receiver, MessageChannel& channel);

 private:
  struct MessageSlot {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    std::uint64_t sequence = 0;  // of the latest message in it
  };
  std::array<MessageSlot, MessageChannel::kSlots> places_;
};

}  // namespace ringrad
