// The Unix socket at which a store's server listens beside its port, for clients of its machine.
//
//     client on this machine       --Unix socket--> server     of the same user: nobody else can
//     client on another machine    --TCP----------> server     keep it from answering
//
// Clients try the Unix socket first. Its name follows from the address and the token, so it belongs
// to one server, as its port does; it lies in no folder and ends with the server. Both sides refuse
// a peer that is not of their own user, and then prove to each other that they know the token, as
// over TCP.

#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {

struct LocalSocketName {
  sockaddr_un address{};
  socklen_t size = 0;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// The name of the socket of the server at that address. REQUIRES: the port is the server's actual
/// one, not 0
LocalSocketName local_socket_name(const StoreAddress& address);

/// A non-blocking socket that listens there. If the system gives none, returns no descriptor, and
/// clients use the port.
Descriptor listen_locally(const StoreAddress& address);

/// True if a process of this process's user is at the other end of the Unix socket.
bool is_of_own_user(int socket);

}  // namespace ringrad
