// StoreConnection: a client's connection to the server of a store (store.h), from connecting to the
// last answer.
//
// All functions end within the time that they are given, which counts only while this thread is
// running (running_time.h): on a loaded machine a live server may be late, and so may this thread.
// A connection that has thrown must not be used again: a late answer would be taken for the answer
// to the next request.

#pragma once

#include <netdb.h>
#include <sys/types.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_address.h"
#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {

/// No server answers, or it answers too late or has stopped answering. Another try may succeed.
struct SilentServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The program that answers is not this job's server.
struct ForeignServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// This process cannot make a socket.
struct NoSocket : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class StoreConnection {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Connects, and goes through the handshake. A server on this machine (store_local.h) may take
  /// `local_time`, another one `time`.
  ///
  /// Throws: SilentServer, ForeignServer, NoSocket
  StoreConnection(const StoreAddress& address, Duration time, Duration local_time);
  StoreConnection(const StoreAddress& address, Duration time)
      : StoreConnection(address, time, time) {}

  /// Throws: SilentServer if the answer does not come within `time`; ForeignServer if it has been
  ///         tampered with
  StoreAnswer ask(const StoreRequest& request, Duration time);

  /// True if the server is on this machine. Then the connection ends as soon as the server does: as
  /// long as it stands, the server lives.
  bool is_local() const { return is_local_; }

  /// The process that made the connection. A forked child must not use it.
  pid_t process() const { return process_; }

 private:
  class TimeLimit;

  void enter(const StoreAddress& address, TimeLimit& limit);
  static void wait_until_ready(int socket, short events, TimeLimit& limit);
  static Descriptor connect_to(const addrinfo& address, TimeLimit& limit);
  static Descriptor connect_to(const StoreAddress& address, TimeLimit& limit);
  static Descriptor connect_locally(const StoreAddress& address);
  void write_frame(const std::string& body, TimeLimit& limit);
  std::string read_frame(std::size_t most_bytes, TimeLimit& limit);
  std::string read(std::size_t num_bytes, TimeLimit& limit);
  StoreAnswer receive(TimeLimit& limit);

  Descriptor socket_;
  bool is_local_ = false;
  StoreSeal to_server_{{}}, from_server_{{}};
  pid_t process_;
};

}  // namespace ringrad
