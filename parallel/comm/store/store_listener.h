// The socket at which a store's server listens. Asio does not open it, because programs that the
// process starts would inherit a socket of Asio's.

#pragma once

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {

/// TCP keepalive notices after about two minutes that a client's machine has vanished.
inline constexpr int kKeepaliveIdle_s = 60, kKeepaliveInterval_s = 15, kKeepaliveProbes = 4;

struct StoreListener {
  Descriptor socket;
  int family = 0;  ///< AF_INET or AF_INET6
  int port = 0;    ///< the actual port, also if 0 was asked for
};

/// Listens at the first of the host's addresses that belongs to this machine.
///
/// Throws: CollectiveError if there is none, or its port is in use
StoreListener listen_at(const StoreAddress& address, Where where);

/// Sets the options of a client's socket: small frames leave at once, and keepalive is on.
void set_client_options(int socket);

}  // namespace ringrad
