// Store: small values that the processes of one job share by name. It is where they find each other.
//
//     StoreServer server;                   one process has it: the launcher, or rank 0
//     Store store(server.address());        every process
//     store.set("leader", "rank 0");
//     store.get("leader");                  waits until somebody has set it
//     store.add("arrived", 1);              1, 2, ... in the order of arrival
//
// The protocol is HTTP, so that a person can look as well:
//
//     PUT  /values/<name>     body: the value; with the header If-None-Match: *, the answer is 412 and the value
//                             that stands if there is one
//     GET  /values/<name>     404 if it is not set within what the header Wait-Milliseconds says
//     POST /values/<name>     body: a number to add; answers the sum
//
// Every request carries the job's token, a random word: without it the answer is 401, so that two jobs that
// meet on one port do not mix. The server listens on this machine's loopback unless told otherwise.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"

namespace ringrad {

struct StoreAddress {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string token;
};

/// A word that nobody guesses: 128 random bits.
std::string make_token();

class StoreServer {
 public:
  /// Listens at once. Port 0 takes a free one; an empty token makes one.
  ///
  /// Throws: CollectiveError if it cannot listen there, or does not answer
  explicit StoreServer(StoreAddress wanted = {}, Where where = Where::current());
  /// Ends; whoever waits for a value gets an error.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Where it listens.
  const StoreAddress& address() const { return address_; }

 private:
  struct State;

  void stop();

  StoreAddress address_;
  std::unique_ptr<State> state_;
};

/// One process's connection to the server, for one thread at a time.
class Store {
 public:
  /// Waits until the server answers: processes start in any order.
  ///
  /// `timeout` is also how long a get() waits.
  /// Throws: CollectiveError if it does not within the timeout, or if the token is another one
  explicit Store(const StoreAddress& address,
                 std::chrono::milliseconds timeout = std::chrono::seconds(30),
                 Where where = Where::current());

  /// Throws: as all below, CollectiveError if the server is gone; ValueError unless the name is of letters,
  ///         digits, and . _ - /
  void set(const std::string& name, const std::string& value, Where where = Where::current());

  /// Waits until the value is set. Throws: CollectiveError also if it is not within the timeout
  std::string get(const std::string& name, Where where = Where::current());

  /// The value, if it is set now.
  std::optional<std::string> find(const std::string& name, Where where = Where::current());

  /// Sets the value unless somebody has; returns the one that stands. So of many, one decides.
  std::string set_first(const std::string& name, const std::string& value,
                        Where where = Where::current());

  /// Adds to a number, 0 at first, and returns the sum.
  std::int64_t add(const std::string& name, std::int64_t amount, Where where = Where::current());

  /// A connection of its own to the same server, for another thread. It finds the server gone if an answer
  /// takes longer than `timeout`, which is also how long a get() waits.
  Store another(std::chrono::milliseconds timeout, Where where = Where::current()) const;

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

 private:
  struct Http;
  Store(const StoreAddress& address, std::chrono::milliseconds timeout,
        std::chrono::milliseconds answer_time, Where where);
  [[noreturn]] void fail(const std::string& got, Where where) const;

  StoreAddress address_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Http> http_;
};

}  // namespace ringrad
