// StoreSession: one connection at the store's server, from its first byte to its last. Only the
// server's thread touches sessions.
//
//     kSilent --hello--> kGreeted --proof--> kClient       at the port
//                         kLocal --proof--> kClient        at the Unix socket (store_local.h)
//
// Each function that waits names the function that continues after the wait; close() ends all
// waits. A session lives while it is in a list of StoreSessions, or an operation of its socket is
// under way.

#pragma once

#include <array>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_limits.h"
#include "ringrad/parallel/comm/store/store_protocol.h"
#include "ringrad/parallel/comm/store/store_values.h"

namespace ringrad {

class StoreSession;
using StoreSessionPtr = std::shared_ptr<StoreSession>;
using StoreSessionList = std::list<StoreSessionPtr>;

/// How much a session looks like a rank's, ascending. All but clients are strangers.
enum StoreStanding : std::size_t { kSilent, kGreeted, kLocal, kClient, kNumStandings };

/// What sessions share.
struct StoreSessions {
  const std::string token;
  const StoreLimits limits;
  StoreValues values{};
  std::array<StoreSessionList, kNumStandings> of_standing{};           // the oldest first
  std::multimap<std::string, StoreSessionPtr, std::less<>> waiting{};  // by name

  std::size_t num_strangers() const;
  /// The stranger to disconnect first if there are too many; null if all have a standing above
  /// `most`.
  StoreSessionPtr least_stranger(StoreStanding most) const;
};

class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  /// Takes the socket, of AF_INET, AF_INET6 or AF_UNIX, unless it throws.
  StoreSession(asio::io_context& io, StoreSessions& all, int family, int socket);
  StoreSession(const StoreSession&) = delete;
  StoreSession& operator=(const StoreSession&) = delete;

  /// Moves the session from `own`, a list of this session alone, into the list of its standing, and
  /// begins to read.
  void start(StoreSessionList& own);
  void close();

 private:
  using Protocol = asio::generic::stream_protocol;  // TCP, or a Unix socket
  using Next = void (StoreSession::*)();

  StoreSessionList& list() { return all_.of_standing[standing_]; }
  void rise_to(StoreStanding standing);
  template <class Body>
  void or_close(Body body);

  void challenge();
  void await_proof();
  void check_proof();

  void await_request();
  void take_request();
  void wait_for_value(const std::string& name, std::chrono::milliseconds time);
  void close_if_it_ends();
  bool has_ended();
  void tell_waiting(const std::string& name);
  void stop_waiting();
  void answer(const StoreAnswer& answer);

  std::size_t most_frame_bytes() const;
  void read_frame(std::size_t size, Next next);
  template <class Then>
  void read(Then then);
  void write_frame(std::string body, Next next);

  template <class Then>
  void after(std::chrono::milliseconds time, Then then);
  void close_after(std::chrono::milliseconds time);
  void stop_timer();

  Protocol::socket socket_;
  asio::steady_timer timer_;
  std::uint64_t num_timers_ = 0;
  StoreSessions& all_;
  StoreStanding standing_;
  StoreSessionList::iterator place_;
  std::string frame_;  // what is being read or written
  StoreKeys keys_{};
  std::optional<StoreSeal> from_client_, to_client_;  // once it is a client
  std::optional<decltype(StoreSessions::waiting)::iterator> waiting_;
};

}  // namespace ringrad
