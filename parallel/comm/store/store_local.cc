#include "ringrad/parallel/comm/store/store_local.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "ringrad/parallel/comm/store/store_auth.h"

namespace ringrad {

LocalSocketName local_socket_name(const StoreAddress& address) {
  // A first byte of 0 makes it a name in no folder.
  const std::string name =
      '\0' + ("ringrad-" + derive_name(address.token, concat(address.host, '\0', address.port)));
  LocalSocketName local;
  local.address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), local.address.sun_path);
  local.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return local;
}

Descriptor listen_locally(const StoreAddress& address) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const LocalSocketName name = local_socket_name(address);
  if (!listener.is_open() || bind(listener.number(), name.data(), name.size) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0)
    return Descriptor();
  return listener;
}

bool is_of_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace ringrad
