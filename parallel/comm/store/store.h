// Store: small values that the processes of one job share by name, and by which they find each
// other.
//
//     StoreServer server;                   in one process: the launcher or rank 0 (store_server.h)
//     Store store(server.address());        every process
//     store.set("leader", "rank 0");
//     store.get("leader");                  waits until a process has set it
//     store.add("arrived", 1);              1, 2, ... in the order of arrival
//
// Client and server prove to each other that they know the job's token before they exchange
// anything else (store_auth.h): two jobs that meet on one port do not mix, and a stranger on the
// port learns nothing.
//
// Every connect, read and write has a deadline. For a server elsewhere it is 10 s of this thread's
// running time (running_time.h). For a server on this machine, whose end would be noticed, it is
// the store's timeout if that is longer, up to an hour. After a failure the next call makes a new
// connection. No request is sent twice.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {

struct StoreAnswer;
class StoreConnection;
struct StoreRequest;

/// One process's connection to the server, for one thread at a time. In a forked child, a store
/// makes its own connection on first use.
class Store {
 public:
  /// Waits until the server answers, since processes start in any order. `timeout` also limits how
  /// long a get() waits.
  ///
  /// Throws: CollectiveError if the server does not answer within the timeout, or does not have
  ///         this job's token
  explicit Store(const StoreAddress& address,
                 std::chrono::milliseconds timeout = std::chrono::seconds(30),
                 Where where = Where::current());

  /// Throws: (as all functions below) CollectiveError if the server is gone or full
  ///         (store_values.h); ValueError unless the name consists of letters, digits and . _ - /
  ///         and name and value are within the limits of store_protocol.h
  void set(const std::string& name, const std::string& value, Where where = Where::current());

  /// Waits until the value is set. Throws: CollectiveError also if that takes longer than the
  /// timeout
  std::string get(const std::string& name, Where where = Where::current());

  /// The value, if it is set now.
  std::optional<std::string> find(const std::string& name, Where where = Where::current());

  /// Sets the value unless it is set already, and returns the value that stands. The first of
  /// several callers therefore decides.
  std::string set_first(const std::string& name, const std::string& value,
                        Where where = Where::current());

  /// Adds to a number, initially 0, and returns the sum. Throws: CollectiveError also if the value
  /// is not a number or the sum does not fit into 64 bits
  std::int64_t add(const std::string& name, std::int64_t amount, Where where = Where::current());

  /// A separate connection to the same server, for another thread. It considers the server gone if
  /// an answer takes longer than `timeout`, which also limits how long a get() waits.
  Store another(std::chrono::milliseconds timeout, Where where = Where::current()) const;

  /// Notes that the process of this rank of the job serves the store: if the server fails, the rank
  /// counts as failed. Without this call, no rank counts as failed then.
  void note_server_rank(int rank) { server_rank_ = rank; }
  std::optional<int> server_rank() const { return server_rank_; }

  /// From now on, the server is considered gone if an answer takes longer than `time`.
  void answer_within(std::chrono::milliseconds time) { most_answer_time_ = time; }

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

 private:
  Store(const StoreAddress& address, std::chrono::milliseconds timeout,
        std::optional<std::chrono::milliseconds> most_answer_time, Where where);
  std::chrono::milliseconds answer_time(bool is_local) const;
  StoreAnswer ask(const StoreRequest& request, Where where);
  [[noreturn]] void fail(const std::string& got, Where where) const;

  StoreAddress address_;
  std::chrono::milliseconds timeout_;
  std::optional<std::chrono::milliseconds> most_answer_time_;  // if it was chosen
  std::unique_ptr<StoreConnection> connection_;                // null after a failure
  std::optional<int> server_rank_;
};

}  // namespace ringrad
