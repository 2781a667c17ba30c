#include "ringrad/parallel/comm/gpu/device_messages.h"

#include <utility>

#include "ringrad/core/gpu/cuda_check.h"

namespace ringrad {
namespace {

// Of the slots of two ranks, by the number of the other one.
std::size_t slot_number(int peer, std::uint64_t sequence) {
  return static_cast<std::size_t>(peer) * MessageChannel::kSlots +
         (sequence - 1) % MessageChannel::kSlots;
}

std::size_t bytes_of(const CollectiveCall& call) {
  return static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
}

// Addresses tell which GPUs they belong to.
void copy(std::byte* to, const std::byte* from, std::size_t bytes, const Stream& stream,
          Where where) {
  RINGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()), where);
}

}  // namespace

DeviceMessages::DeviceMessages(RankSession& session, DeviceLinks& links, Device device)
    : session_(session),
      links_(links),
      device_(device),
      slots_(static_cast<std::size_t>(session.world_size()) * MessageChannel::kSlots,
             Slot{nullptr, 0, Stream(device, nullptr)}) {}

DeviceMessages::~DeviceMessages() {
  for (Slot& slot : slots_)
    if (slot.memory) links_.keep(std::move(slot.memory));
}

void DeviceMessages::send(MessageChannel& channel, Operation& operation,
                          const std::byte* elements) {
  const CollectiveCall& call = operation.call;
  const std::uint64_t sequence = operation.sequence;
  const Where where = operation.where;
  wait_for_slot(session_.group(), channel, operation, session_.next_entry());
  std::uintptr_t name = 0;
  if (const std::size_t bytes = bytes_of(call); bytes > 0) {
    const DeviceGuard guard(device_, where);
    const Stream stream = current_stream(device_);
    Slot& slot = slots_[slot_number(call.peer, sequence)];
    if (slot.memory) wait_for(call.peer, sequence, End::taken, stream, where);
    if (slot.bytes < bytes) {
      // The next user of the old memory must come after its last message.
      if (slot.memory) Event(stream, /*timing=*/false, where).block(slot.order, where);
      slot = {links_.allocate(bytes, where), bytes, stream};
    }
    slot.sequence = sequence;
    slot.channel = &channel;
    copy(slot.memory.get(), elements, bytes, stream, where);
    record(call.peer, sequence, End::sent, stream, where);
    name = links_.name(slot.memory.get());
  }
  publish_sent(session_.group(), channel, operation, DeviceType::cuda, name);
}

void DeviceMessages::receive(MessageChannel& channel, const Operation& operation,
                             std::uintptr_t sent, std::byte* elements) {
  const CollectiveCall& call = operation.call;
  const std::uint64_t sequence = operation.sequence;
  const Where where = operation.where;
  if (const std::size_t bytes = bytes_of(call); bytes > 0) {
    check_peer_lives(operation);
    const DeviceGuard guard(device_, where);
    const Stream stream = current_stream(device_);
    const std::byte* from = links_.address(call.peer, sent);
    wait_for(call.peer, sequence, End::sent, stream, where);
    copy(elements, from, bytes, stream, where);
    record(call.peer, sequence, End::taken, stream, where);
  }
  publish_taken(session_.group(), channel, operation);
}

void DeviceMessages::check_peer_lives(const Operation& operation) const {
  const int peer = operation.call.peer;
  if (session_.memory()->has_died(peer))
    session_.group().fail_and_throw(
        operation, peer,
        concat(operation, ": the peer's process must live until its message is received; got the ",
               "end of rank ", session_.group().name(peer)));
}

bool DeviceMessages::all_are_taken() noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].channel && !is_taken(static_cast<int>(i / MessageChannel::kSlots), slots_[i]))
      return false;
  return true;
}

// The receiver's host says that it has queued the copy, and its event that the copy is made.
bool DeviceMessages::is_taken(int peer, const Slot& slot) {
  if (session_.memory()->has_died(peer)) return true;
  if (slot.channel->taken.load(std::memory_order_acquire) < slot.sequence)
    return session_.group().has_left(peer).load(std::memory_order_acquire);
  try {
    const std::size_t number = event_number(session_.rank(), slot.sequence, End::taken);
    return cudaEventQuery(links_.event(peer, number, Where::current())) != cudaErrorNotReady;
  } catch (const Error&) {  // the receiver is about to end
    return true;
  }
}

// --- Events: each belongs to the rank that records it, and has the number of the other one's slot
// ---

void DeviceMessages::record(int peer, std::uint64_t sequence, End end, const Stream& stream,
                            Where where) {
  const cudaEvent_t event = links_.event(session_.rank(), event_number(peer, sequence, end), where);
  RINGRAD_CUDA_CHECK(cudaEventRecord(event, stream.handle()), where);
}

void DeviceMessages::wait_for(int peer, std::uint64_t sequence, End end, const Stream& stream,
                              Where where) {
  const cudaEvent_t event = links_.event(peer, event_number(session_.rank(), sequence, end), where);
  RINGRAD_CUDA_CHECK(cudaStreamWaitEvent(stream.handle(), event, 0), where);
}

std::size_t DeviceMessages::event_number(int peer, std::uint64_t sequence, End end) {
  return DeviceLinks::kCollectiveEvents + 2 * slot_number(peer, sequence) +
         static_cast<std::size_t>(end);
}

}  // namespace ringrad
