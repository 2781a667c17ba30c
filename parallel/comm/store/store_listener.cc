#include "ringrad/parallel/comm/store/store_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "ringrad/parallel/comm/common/system_limits.h"

namespace ringrad {
namespace {

Descriptor listen_at(const addrinfo& where) {
  Descriptor listener(socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (!listener.is_open() ||
      setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(listener.number(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(listener.number(), SOMAXCONN) != 0)
    return Descriptor();
  return listener;
}

int port_of(const Descriptor& listener) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(listener.number(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

}  // namespace

StoreListener listen_at(const StoreAddress& address, Where where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  errno = 0;
  const int unknown =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* one = found; one && unknown == 0; one = one->ai_next)
    if (Descriptor socket = listen_at(*one); socket.is_open()) {
      const int port = port_of(socket);
      return {std::move(socket), one->ai_family, port};
    }
  throw CollectiveError(
      concat("store: the server must be able to listen; got none at ", address.host, ':',
             address.port, ", which is in use or not an address of this machine (",
             unknown ? gai_strerror(unknown) : text_of_errno(errno), ')'),
      where);
}

void set_client_options(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepaliveIdle_s, sizeof kKeepaliveIdle_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepaliveInterval_s,
             sizeof kKeepaliveInterval_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepaliveProbes, sizeof kKeepaliveProbes);
}

}  // namespace ringrad
