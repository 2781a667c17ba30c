// StoreConnection: a client's connection to the server of a store (store.h), from connecting to the
// last answer.
//
// All functions end by their deadline. A connection that has thrown is of no more use: an answer
// that comes too late would be taken for the next one's.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_address.h"
#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {

/// Nothing answers, or not in time, or no more. Another try may succeed.
struct SilentServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// What answers is not the server of this job.
struct ForeignServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// This process cannot make a socket.
struct NoSocket : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class StoreConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// Connects, and goes through the handshake. Throws: SilentServer, ForeignServer, NoSocket
  StoreConnection(const StoreAddress& address, Clock::time_point end);

  /// Throws: SilentServer if the answer does not come by `end`; ForeignServer if it has been
  ///         tampered with
  StoreAnswer ask(const StoreRequest& request, Clock::time_point end);

  /// The process that made it. A forked child must not speak on it.
  pid_t process() const { return process_; }

 private:
  void write_frame(const std::string& body, Clock::time_point end);
  std::string read_frame(std::size_t most_bytes, Clock::time_point end);
  std::string read(std::size_t num_bytes, Clock::time_point end);
  StoreAnswer receive(Clock::time_point end);

  Descriptor socket_;
  StoreSeal to_server_{{}}, from_server_{{}};
  pid_t process_;
};

}  // namespace ringrad
