// StoreServer: keeps the values of a job's store (store.h), for clients that know the job's token.
//
//     StoreServer server;                   one process has it: the launcher, or rank 0
//     Store store(server.address());        every process
//
// One thread serves all clients on non-blocking sockets, so a client that waits for a value costs a
// connection but no thread. The protocol is in store_protocol.h; every connection begins with the
// handshake of store_auth.h. A client that breaks a rule is disconnected without an answer, so that
// a stranger learns nothing.
//
// The limits of store_limits.h, store_protocol.h and store_values.h apply to every client that
// can reach the port. A stranger is a connection that has not yet proved that it knows the token.
// Strangers have a separate limit, so they cannot take the places of the job's ranks. Beyond it,
// the server disconnects the stranger that looks least like a rank: the oldest that has not said
// hello, then the oldest that has, then one on the Unix socket (store_local.h), which only
// processes of the server's own user can reach. A client is never disconnected for another one.
//
// The server listens on this machine's loopback interface unless the address names another, and at
// a Unix socket for clients of this machine. A forked child that exits, or destroys its copy of the
// server, does not affect the parent's server. While the child lives it holds copies of the
// sockets, so a child that outlives its parent keeps the port.

#pragma once

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/store/store_address.h"
#include "ringrad/parallel/comm/store/store_limits.h"

namespace ringrad {

class StoreServer {
 public:
  /// Listens at once. Port 0 takes a free port; an empty token makes a new one.
  ///
  /// Throws: ValueError for a token that could be guessed (check_token); CollectiveError if the
  ///         server cannot listen at that address, or cannot start its thread
  explicit StoreServer(StoreAddress wanted = {}, Where where = Where::current());
  StoreServer(StoreAddress wanted, const StoreLimits& limits, Where where = Where::current());
  /// Disconnects all clients; a client that waits for a value gets an error.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The address where the server listens.
  const StoreAddress& address() const { return address_; }

 private:
  class State;

  StoreAddress address_;
  OwnedByProcess<State> state_;
};

}  // namespace ringrad
