#include "parallel/comm/message_channel.h"

#include <cstring>

namespace ringrad {

void put_message(ThreadGroup& group, MessageChannel& channel, Operation& operation,
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
  MessageChannel::Slot& slot = channel.slot(operation.sequence);
  slot.dtype = call.dtype;
  slot.count = call.count;
  slot.bytes.assign(elements, elements + call.count * size_bytes(call.dtype));
  channel.sent.store(operation.sequence, std::memory_order_release);
}

void take_message(ThreadGroup& group, MessageChannel& channel, Operation& operation,
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
  if (!slot.bytes.empty()) std::memcpy(elements, slot.bytes.data(), slot.bytes.size());
  channel.taken.store(operation.sequence, std::memory_order_release);
}

}  // namespace ringrad
