#include "ringrad/parallel/comm/network/gloo_context.h"

#include <limits>

namespace ringrad {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t kLookoutSlot = std::numeric_limits<std::uint64_t>::max();

constexpr milliseconds kAtOnce{0};

}  // namespace

// --- Connections ---

void GlooContext::begin_lookout() {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size; ++peer) {
    lookouts_.push_back(peer == rank ? nullptr : createUnboundBuffer(nullptr, 0));
    if (peer != rank) lookouts_.back()->recv(peer, kLookoutSlot);
  }
}

// Null while the connection stands. A wait that is aborted before it begins ends at once, with the
// error if there is one. REQUIRES: mutex_ is held
std::exception_ptr GlooContext::error_of_connection(int peer) {
  UnboundBuffer& lookout = *lookouts_[static_cast<std::size_t>(peer)];
  try {
    lookout.abortWaitRecv();
    lookout.waitRecv(kAtOnce);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void GlooContext::end_lost_waits() noexcept {
  const std::lock_guard lock(mutex_);
  if (awaited_ == nullptr || !error_of_connection(awaited_->peer)) return;
  if (awaited_->is_send)
    awaited_->memory->abortWaitSend();
  else
    awaited_->memory->abortWaitRecv();
}

// What had come when the connection ended counts.
void GlooContext::wait(Message& message, milliseconds timeout) {
  std::exception_ptr error;
  const auto is_done = [&](milliseconds time) {
    return message.is_send ? message.memory->waitSend(time) : message.memory->waitRecv(time);
  };
  const auto await = [&](Message* awaited) {
    const std::lock_guard lock(mutex_);
    awaited_ = awaited;
    if (awaited) error = error_of_connection(awaited->peer);
  };
  try {
    for (await(&message); !is_done(error ? kAtOnce : timeout);) await(&message);
  } catch (...) {
    await(nullptr);
    if (error) std::rethrow_exception(error);
    throw;
  }
  await(nullptr);
}

// --- Messages ---

// Waiting for a send is not in const's way.
GlooContext::Message GlooContext::send(const std::byte* data, std::size_t bytes, int to,
                                       std::uint64_t slot) {
  Message message{createUnboundBuffer(const_cast<std::byte*>(data), bytes), to, /*is_send=*/true};
  message.memory->send(to, slot);
  return message;
}

GlooContext::Message GlooContext::recv(std::byte* data, std::size_t bytes, int from,
                                       std::uint64_t slot) {
  Message message{createUnboundBuffer(data, bytes), from, /*is_send=*/false};
  message.memory->recv(from, slot);
  return message;
}

}  // namespace ringrad
