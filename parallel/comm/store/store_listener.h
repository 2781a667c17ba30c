// The socket at which a store's server listens. It is not Asio's own, which programs that the
// process starts would inherit.

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
  int port = 0;    ///< the one it has, also where any was wanted
};

/// Listens at the first address of the host that this machine has.
///
/// Throws: CollectiveError if there is none, or its port is in use
StoreListener listen_at(const StoreAddress& address, Where where);

/// What a socket of a client needs: small frames leave at once, and keepalive.
void set_client_options(int socket);

}  // namespace ringrad
