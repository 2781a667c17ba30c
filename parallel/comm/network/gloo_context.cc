#include "ringrad/parallel/comm/network/gloo_context.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <stdexcept>

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

// --- Buffers ---

class GlooContext::Buffer final : public UnboundBuffer {
 public:
  Buffer(GlooContext& context, std::byte* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), context_(context) {}

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    sends_.push_back({part(offset, bytes), to, /*is_send=*/true});
    sends_.back().memory->send(to, slot);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    recvs_.push_back({part(offset, bytes), from, /*is_send=*/false});
    recvs_.back().memory->recv(from, slot);
  }
  void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override {
    throw std::logic_error("a message has one sender");
  }

  bool waitSend(int* rank, milliseconds timeout) override { return wait(sends_, rank, timeout); }
  bool waitRecv(int* rank, milliseconds timeout) override { return wait(recvs_, rank, timeout); }
  void abortWaitSend() override {}
  void abortWaitRecv() override {}

 private:
  std::unique_ptr<UnboundBuffer> part(std::size_t offset, std::size_t bytes) const {
    return context_.createUnboundBuffer(static_cast<std::byte*>(ptr) + offset,
                                        std::min(bytes, size - offset));
  }
  bool wait(std::deque<Message>& messages, int* rank, milliseconds timeout) {
    context_.wait(messages.front(), timeout);
    if (rank) *rank = messages.front().peer;
    messages.pop_front();
    return true;
  }

  GlooContext& context_;
  std::deque<Message> sends_, recvs_;
};

std::unique_ptr<UnboundBuffer> GlooContext::make_buffer(std::byte* data, std::size_t bytes) {
  return std::make_unique<Buffer>(*this, data, bytes);
}

}  // namespace ringrad
