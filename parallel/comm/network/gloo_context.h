// GlooContext: Gloo's ranks, with waits that end when a connection does.
//
// When a connection breaks, Gloo (its gloo::transport::tcp::Pair::signalException) ends the waits
// for messages that have not begun. It does not end a wait for a message that it has partly read or
// written, or could not write any more: such a wait would last until the deadline. So
//
//   - every connection has a lookout, a receive that nobody answers. It gets the error.
//   - another thread looks at the lookout of the connection that this rank waits for.

#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ringrad {

/// context.connectFullMesh(store, network). Gloo takes the store itself, or since 2025 a pointer.
template <class Context>
void connect_full_mesh(Context& context, std::shared_ptr<gloo::rendezvous::Store> store,
                       std::shared_ptr<gloo::transport::Device>& network) {
  if constexpr (requires { context.connectFullMesh(store, network); })
    context.connectFullMesh(std::move(store), network);
  else
    context.connectFullMesh(*store, network);
}

class GlooContext final : public gloo::rendezvous::Context {
 public:
  using gloo::rendezvous::Context::Context;

  /// Sets up the lookouts. REQUIRES: connectFullMesh() has returned
  void begin_lookout();

  /// A message in flight, at either end. It must not outlive this context.
  struct Message {
    std::unique_ptr<gloo::transport::UnboundBuffer> memory;
    int peer = 0;
    bool is_send = false;
  };
  Message send(const std::byte* data, std::size_t bytes, int to, std::uint64_t slot);
  Message recv(std::byte* data, std::size_t bytes, int from, std::uint64_t slot);
  /// One message is waited for at a time.
  void wait(Message& message, std::chrono::milliseconds timeout);

  /// Makes the current wait throw if its connection has ended. For another thread.
  void end_lost_waits() noexcept;

 private:
  std::exception_ptr error_of_connection(int peer);

  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> lookouts_;  // (size), null: own
  Message* awaited_ = nullptr;
};

}  // namespace ringrad
