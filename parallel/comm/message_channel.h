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

#include "core/dtype.h"

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

}  // namespace ringrad
