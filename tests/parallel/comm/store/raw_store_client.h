// RawStoreClient: a client of the store that may break every rule of its protocol.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_address.h"
#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad::testing {

class RawStoreClient {
 public:
  explicit RawStoreClient(const StoreAddress& address)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), token_(address.token) {
    sockaddr_in server{};
    server.sin_family = AF_INET;
    server.sin_port = htons(static_cast<std::uint16_t>(address.port));
    inet_pton(AF_INET, address.host.c_str(), &server.sin_addr);
    RINGRAD_CHECK(
        connect(socket_.number(), reinterpret_cast<sockaddr*>(&server), sizeof server) == 0, Error,
        Where::current(), "a raw client must connect");
    const timeval patience{20, 0};
    setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  /// Sends bytes as they are. False if the server has closed the connection.
  bool send(std::string_view bytes) {
    sent_ += bytes;
    return ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool send_frame(std::string_view body) { return send(concat(frame_header(body.size()), body)); }
  /// All bytes that were sent.
  const std::string& sent() const { return sent_; }

  /// Receives `size` bytes, or fewer if the server closes the connection.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    const ssize_t count = recv(socket_.number(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }
  std::string receive_frame() { return receive(frame_size(receive(kFrameHeaderBytes))); }

  /// Waits until the server closes the connection. False if the server sends anything, or does not
  /// close it in time.
  bool is_closed_within(std::chrono::milliseconds time) {
    pollfd ready{socket_.number(), POLLIN, 0};
    char byte = 0;
    return poll(&ready, 1, static_cast<int>(time.count())) == 1 &&
           recv(socket_.number(), &byte, 1, 0) <= 0;
  }

  /// Says hello, and receives the challenge.
  void say_hello() {
    const StoreNonce own = make_nonce();
    send_frame(concat(kStoreMagic, bytes_of(own)));
    const std::string challenge = receive_frame();
    keys_ = derive_keys(token_, own, array_of(challenge));
    to_server_ = StoreSeal(keys_.to_server);
    from_server_ = StoreSeal(keys_.to_client);
  }
  /// Sends the proof that answers the challenge with the token.
  void prove() { send_frame(bytes_of(keys_.client_proof)); }
  void say_hello_and_prove() {
    say_hello();
    prove();
  }
  /// Performs the whole handshake.
  void enter() {
    say_hello_and_prove();
    receive_answer();
  }

  std::string sealed(const StoreRequest& request) { return to_server_.seal(encode(request)); }
  StoreAnswer receive_answer() {
    std::string frame = receive_frame();
    RINGRAD_CHECK(from_server_.open(frame), Error, Where::current(), "an answer must be sealed");
    return decode_answer(frame).value();
  }

 private:
  Descriptor socket_;
  const std::string token_;
  StoreKeys keys_{};
  StoreSeal to_server_{{}}, from_server_{{}};
  std::string sent_;
};

}  // namespace ringrad::testing
