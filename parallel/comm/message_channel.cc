#include "parallel/comm/message_channel.h"

#include <cstring>
#include <new>

namespace ringrad {

std::size_t MessageChannels::shared_bytes(int world_size) {
  return sizeof(MessageChannel) * static_cast<std::size_t>(world_size) * world_size;
}

void MessageChannels::make_shared(std::byte* shared, int world_size) {
  auto* channels = reinterpret_cast<MessageChannel*>(shared);
  for (int i = 0; i < world_size * world_size; ++i) new (channels + i) MessageChannel;
}

void Outbox::put(RankGroup& group, MessageChannel& channel, Operation& operation,
                 const std::byte* elements) {
  const CollectiveCall& call = operation.call;
  const bool in_time = group.wait_until(operation, call.peer, [&] {
    return operation.sequence - channel.taken.load(std::memory_order_acquire) <=
           MessageChannel::kSlots;
  });
  if (!in_time)
    group.fail_and_throw(operation, concat(operation, ": rank ", call.peer, " must receive within ",
                                           group.deadline_s(), " s; got ", MessageChannel::kSlots,
                                           " messages that it has not taken"));
  const std::size_t bytes = call.count * size_bytes(call.dtype);
  Place& place = places_[operation.sequence % places_.size()];
  if (place.bytes < bytes) place = {group.memory().allocate(bytes, operation.where), bytes};
  if (bytes > 0) std::memcpy(place.memory.get(), elements, bytes);
  channel.slot(operation.sequence) = {call.dtype, call.count,
                                      group.distance(operation.rank, place.memory.get())};
  channel.sent.store(operation.sequence, std::memory_order_release);
  group.wake_waiting();
}

void take_message(RankGroup& group, MessageChannel& channel, Operation& operation,
                  std::byte* elements) {
  const CollectiveCall& call = operation.call;
  const bool in_time = group.wait_until(operation, call.peer, [&] {
    return channel.sent.load(std::memory_order_acquire) >= operation.sequence;
  });
  if (!in_time)
    group.fail_and_throw(operation, concat(operation, ": rank ", call.peer, " must send within ",
                                           group.deadline_s(), " s; got no message"));
  const MessageChannel::Slot& slot = channel.slot(operation.sequence);
  if (slot.dtype != call.dtype || slot.count != call.count)
    group.fail_and_throw(
        operation, concat(operation, ": the message must be ", slot.dtype, ", ", slot.count,
                          " elements as sent by rank ", call.peer, "; got a tensor of ", call.dtype,
                          ", ", call.count, " elements"));
  const std::size_t bytes = call.count * size_bytes(call.dtype);
  if (bytes > 0) std::memcpy(elements, group.address(call.peer, slot.elements), bytes);
  channel.taken.store(operation.sequence, std::memory_order_release);
  group.wake_waiting();
}

}  // namespace ringrad
