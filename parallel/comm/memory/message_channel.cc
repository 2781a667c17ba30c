#include "ringrad/parallel/comm/memory/message_channel.h"

#include <cstring>
#include <new>
#include <string>

#include "ringrad/parallel/comm/common/culprit_report.h"

namespace ringrad {

std::size_t MessageChannels::shared_bytes(int world_size) {
  return sizeof(MessageChannel) * static_cast<std::size_t>(world_size) * world_size;
}

void MessageChannels::make_shared(std::byte* shared, int world_size) {
  auto* channels = reinterpret_cast<MessageChannel*>(shared);
  for (int i = 0; i < world_size * world_size; ++i) new (channels + i) MessageChannel;
}

namespace {

// Returns false when the deadline has passed. A peer that has entered the next collective, and has
// not done its part of the message before, does no more until this rank enters too.
template <class Ready>
bool wait_for_peer(RankGroup& group, Operation& operation, std::uint64_t next_entry, Ready ready) {
  const int peer = operation.call.peer;
  bool is_elsewhere = false;
  const bool in_time = group.wait_until(operation, peer, [&] {
    is_elsewhere = group.has_published(peer, next_entry);  // first: what it did before is seen then
    return ready() || is_elsewhere;
  });
  if (is_elsewhere && !ready()) group.fail_mixed(operation, next_entry);
  return in_time;
}

// The peer may be late because it waits for a rank that is stopped.
[[noreturn]] void fail_late(RankGroup& group, const Operation& operation, const char* must,
                            const std::string& got) {
  const int peer = operation.call.peer, culprit = group.first_stopped(peer);
  group.fail_and_throw(
      operation, culprit,
      concat(operation, ": rank ", group.name(peer), " must ", must, " within ", group.deadline_s(),
             " s; got ", got,
             culprit == peer ? "" : concat(", while rank ", group.name(culprit), " is stopped")));
}

}  // namespace

void wait_for_slot(RankGroup& group, MessageChannel& channel, Operation& operation,
                   std::uint64_t next_entry) {
  const bool in_time = wait_for_peer(group, operation, next_entry, [&] {
    return operation.sequence - channel.taken.load(std::memory_order_acquire) <=
           MessageChannel::kSlots;
  });
  if (!in_time)
    fail_late(group, operation, "receive",
              concat(MessageChannel::kSlots, " messages that it has not taken"));
}

void publish_sent(RankGroup& group, MessageChannel& channel, const Operation& operation,
                  DeviceType device, std::uintptr_t elements) {
  const CollectiveCall& call = operation.call;
  channel.slot(operation.sequence) = {call.dtype, device, call.count, elements};
  channel.sent.store(operation.sequence, std::memory_order_release);
  group.wake_waiting();
}

const MessageChannel::Slot& wait_for_message(RankGroup& group, MessageChannel& channel,
                                             Operation& operation, std::uint64_t next_entry) {
  const CollectiveCall& call = operation.call;
  const bool in_time = wait_for_peer(group, operation, next_entry, [&] {
    return channel.sent.load(std::memory_order_acquire) >= operation.sequence;
  });
  if (!in_time) fail_late(group, operation, "send", "no message");
  const MessageChannel::Slot& slot = channel.slot(operation.sequence);
  if (slot.dtype != call.dtype || slot.count != call.count)
    group.fail_and_throw(operation, kNobody,
                         concat(operation, ": the message must be ", slot.dtype, ", ", slot.count,
                                " elements as sent by rank ", group.name(call.peer),
                                "; got a tensor of ", call.dtype, ", ", call.count, " elements"));
  return slot;
}

void publish_taken(RankGroup& group, MessageChannel& channel, const Operation& operation) {
  channel.taken.store(operation.sequence, std::memory_order_release);
  group.wake_waiting();
}

void Outbox::send(RankGroup& group, MessageChannel& channel, Operation& operation,
                  std::uint64_t next_entry, const std::byte* elements) {
  wait_for_slot(group, channel, operation, next_entry);
  const std::size_t bytes = operation.call.count * size_bytes(operation.call.dtype);
  MessageSlot& place = places_[operation.sequence % places_.size()];
  if (place.bytes < bytes) place = {group.memory().allocate(bytes, operation.where), bytes};
  place.sequence = operation.sequence;
  if (bytes > 0) std::memcpy(place.memory.get(), elements, bytes);
  publish_sent(group, channel, operation, DeviceType::cpu,
               group.distance(operation.rank, place.memory.get()));
}

void Outbox::leave_to(RankGroup& group, int receiver, MessageChannel& channel) {
  for (MessageSlot& place : places_) {
    const auto is_done = [taken = &channel.taken, sequence = place.sequence,
                          left = &group.has_left(receiver)] {
      return taken->load(std::memory_order_acquire) >= sequence ||
             left->load(std::memory_order_acquire);
    };
    if (place.memory && !is_done()) group.memory().keep(std::move(place.memory), is_done);
  }
}

}  // namespace ringrad
