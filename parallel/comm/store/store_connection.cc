#include "ringrad/parallel/comm/store/store_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/store/store_local.h"

namespace ringrad {
namespace {

constexpr std::chrono::milliseconds kTick{100};  // between looks at the time

// A connection to a free port of this machine may come out at its own end.
bool is_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

}  // namespace

// The time that this thread has waited since it began a call.
class StoreConnection::TimeLimit {
 public:
  explicit TimeLimit(Duration most) : most_(most) {}
  Duration left() { return most_ - waited_.advance(); }

 private:
  const Duration most_;
  RunningTime waited_{kTick};
};

// Returns when the socket is ready.
void StoreConnection::wait_until_ready(int socket, short events, TimeLimit& limit) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit.left());
    pollfd ready{socket, events, 0};
    if (poll(&ready, 1, static_cast<int>(std::clamp(left, left.zero(), kTick).count())) > 0) return;
    if (left.count() <= 0) throw SilentServer("no answer in time");
  }
}

// None if no server of this user is there.
Descriptor StoreConnection::connect_locally(const StoreAddress& address) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const LocalSocketName name = local_socket_name(address);
  if (!socket.is_open() || connect(socket.number(), name.data(), name.size) != 0 ||
      !is_of_own_user(socket.number()))
    return Descriptor();
  return socket;
}

Descriptor StoreConnection::connect_to(const addrinfo& address, TimeLimit& limit) {
  Descriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw NoSocket(text_of_errno(errno));
  const int yes = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  int error = 0;
  if (connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS || error == EINTR) {
    wait_until_ready(socket.number(), POLLOUT, limit);
    socklen_t size = sizeof error;
    getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0 && is_to_itself(socket.number())) error = ECONNREFUSED;
  if (error != 0) throw SilentServer(std::strerror(error));
  return socket;
}

Descriptor StoreConnection::connect_to(const StoreAddress& address, TimeLimit& limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (unknown != 0) throw SilentServer(gai_strerror(unknown));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* one = found;; one = one->ai_next) try {
      return connect_to(*one, limit);
    } catch (const SilentServer&) {
      if (!one->ai_next) throw;
    }
}

StoreConnection::StoreConnection(const StoreAddress& address, Duration time, Duration local_time)
    : socket_(connect_locally(address)), is_local_(socket_.is_open()), process_(getpid()) {
  TimeLimit local_limit(local_time);
  if (is_local_) try {
      enter(address, local_limit);
      return;
    } catch (const std::runtime_error&) {  // it has closed the connection, or somebody has its name
      if (local_limit.left().count() <= 0) throw;
    }
  is_local_ = false;
  TimeLimit limit(time);
  socket_ = connect_to(address, limit);
  enter(address, limit);
}

void StoreConnection::enter(const StoreAddress& address, TimeLimit& limit) {
  const StoreNonce own = make_nonce();
  write_frame(concat(kStoreMagic, bytes_of(own)), limit);
  constexpr std::size_t kChallengeBytes = sizeof(StoreNonce) + sizeof(StoreMac);
  const std::string challenge = read_frame(kChallengeBytes, limit);
  if (challenge.size() != kChallengeBytes) throw ForeignServer("something that is no store");
  const std::string_view bytes = challenge;
  const StoreKeys keys = derive_keys(address.token, own, array_of(bytes));
  if (!is_same(keys.server_proof, bytes.substr(sizeof(StoreNonce))))
    throw ForeignServer("one of another job");
  write_frame(std::string(bytes_of(keys.client_proof)), limit);
  to_server_ = StoreSeal(keys.to_server);
  from_server_ = StoreSeal(keys.to_client);
  receive(limit);
}

StoreAnswer StoreConnection::ask(const StoreRequest& request, Duration time) {
  TimeLimit limit(time);
  write_frame(to_server_.seal(encode(request)), limit);
  return receive(limit);
}

StoreAnswer StoreConnection::receive(TimeLimit& limit) {
  std::string frame = read_frame(1 + kMostValueBytes + kMacBytes, limit);
  if (!from_server_.open(frame)) throw ForeignServer("an answer that was tampered with");
  auto answer = decode_answer(frame);
  if (!answer) throw ForeignServer("an answer that is none");
  return *std::move(answer);
}

void StoreConnection::write_frame(const std::string& body, TimeLimit& limit) {
  const std::string frame = frame_header(body.size()) + body;
  for (std::size_t num_written = 0; num_written < frame.size();) {
    const ssize_t count = send(socket_.number(), frame.data() + num_written,
                               frame.size() - num_written, MSG_NOSIGNAL);
    if (count >= 0)
      num_written += static_cast<std::size_t>(count);
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      wait_until_ready(socket_.number(), POLLOUT, limit);
    else if (errno != EINTR)
      throw SilentServer(std::strerror(errno));
  }
}

std::string StoreConnection::read_frame(std::size_t most_bytes, TimeLimit& limit) {
  const std::size_t size = frame_size(read(kFrameHeaderBytes, limit));
  if (size == 0 || size > most_bytes) throw ForeignServer("something that is no store");
  return read(size, limit);
}

std::string StoreConnection::read(std::size_t num_bytes, TimeLimit& limit) {
  std::string bytes(num_bytes, '\0');
  for (std::size_t num_read = 0; num_read < num_bytes;) {
    const ssize_t count = recv(socket_.number(), bytes.data() + num_read, num_bytes - num_read, 0);
    if (count > 0)
      num_read += static_cast<std::size_t>(count);
    else if (count == 0)
      throw SilentServer("a connection that was closed");
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      wait_until_ready(socket_.number(), POLLIN, limit);
    else if (errno != EINTR)
      throw SilentServer(std::strerror(errno));
  }
  return bytes;
}

}  // namespace ringrad
