// MessageChannel: messages from one rank to one other, in order, through a few slots.
//
//     sent  = 5      slot   0    1    2    3         message #k lies in slot (k - 1) % kSlots
//     taken = 3           [ #5 |    |    | #4 ]      in use: taken < k <= sent
//
// The sender owns `sent` and the slots not in use, the receiver owns `taken` and the slots in use;
// each hands slots over by releasing its counter. Slots keep their memory.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/comm/thread_group.h"

namespace ringrad {

struct MessageChannel {
  static constexpr std::uint64_t kSlots = 4;

  struct Slot {
    DType dtype = DType::float32;
    std::int64_t count = 0;
    std::vector<std::byte> bytes;
  };

  // A line each: the two ends write them at the same time.
  alignas(64) std::atomic<std::uint64_t> sent{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  std::array<Slot, kSlots> slots;

  /// The place of message #sequence, counted from 1.
  Slot& slot(std::uint64_t sequence) { return slots[(sequence - 1) % kSlots]; }
};

/// Copies the elements that `operation` is about into the channel, as its message number, when there
/// is a free slot; take_message copies them out.
///
/// REQUIRES: operation.call says what the elements are and who is at the other end
/// Throws:   CollectiveError, and breaks the group, if the other end has left or does not come in
///           time; take_message also if the message is of another dtype or size
void put_message(ThreadGroup& group, MessageChannel& channel, Operation& operation,
                 const std::byte* elements);
void take_message(ThreadGroup& group, MessageChannel& channel, Operation& operation,
                  std::byte* elements);

}  // namespace ringrad
