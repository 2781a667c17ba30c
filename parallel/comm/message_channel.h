// MessageChannel: messages from one rank to one other, in order, through a few slots.
//
//     sent  = 5      slot   0    1    2    3         message #k lies in slot (k - 1) % kSlots
//     taken = 3           [ #5 |    |    | #4 ]      in use: taken < k <= sent
//
// The sender owns `sent` and the slots not in use, the receiver owns `taken` and the slots in use;
// each hands slots over by releasing its counter. Channels lie in the memory that all ranks share; what is in
// a message lies in the sender's own, which keeps it for the next message of that slot.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "parallel/comm/rank_group.h"

namespace ringrad {

struct MessageChannel {
  static constexpr std::uint64_t kSlots = 4;

  struct Slot {
    DType dtype = DType::float32;
    std::int64_t count = 0;
    std::uintptr_t elements = 0;  // distance from the sender's base
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

/// Where the messages to one rank are kept until they are taken.
class Outbox {
 public:
  /// Copies the elements that `operation` is about into the channel, as its message number, when there
  /// is a free slot; take_message copies them out.
  ///
  /// REQUIRES: operation.call says what the elements are and who is at the other end
  /// Throws:   CollectiveError, and breaks the group, if the other end has left or does not come in
  ///           time; take_message also if the message is of another dtype or size
  void put(RankGroup& group, MessageChannel& channel, Operation& operation,
           const std::byte* elements);

  /// Messages that were not taken outlive their sender.
  void leave_to(GroupMemory& memory) {
    for (Place& place : places_)
      if (place.memory) memory.keep(std::move(place.memory));
  }

 private:
  struct Place {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };
  std::array<Place, MessageChannel::kSlots> places_;
};

void take_message(RankGroup& group, MessageChannel& channel, Operation& operation,
                  std::byte* elements);

}  // namespace ringrad
