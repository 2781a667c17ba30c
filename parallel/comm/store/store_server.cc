#include "ringrad/parallel/comm/store/store_server.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_auth.h"
#include "ringrad/parallel/comm/store/store_listener.h"
#include "ringrad/parallel/comm/store/store_local.h"
#include "ringrad/parallel/comm/store/store_protocol.h"
#include "ringrad/parallel/comm/store/store_values.h"

namespace ringrad {
namespace {

using asio::error_code;
using Protocol = asio::generic::stream_protocol;  // TCP, or a Unix socket
using ReadySocket = asio::posix::stream_descriptor;

constexpr int kAcceptedAtOnce = 16;  // then connections that are open have their turn
constexpr auto kPauseWithoutDescriptors = std::chrono::milliseconds(50);

StoreLimits within_system(StoreLimits limits) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  limits.most_strangers = std::clamp<std::size_t>(files.rlim_cur / 4, 1, limits.most_strangers);
  return limits;
}

// --- One connection ---

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;
using Connections = std::list<ConnectionPtr>;

// How much speaks for a connection. All but clients are strangers.
enum Standing : std::size_t { kSilent, kGreeted, kLocal, kClient, kNumStandings };

// What connections share. Only the server's thread touches it.
struct Shared {
  const std::string token;
  const StoreLimits limits;
  StoreValues values{};
  std::array<Connections, kNumStandings> connections{};  // of each standing, the oldest first
  std::multimap<std::string, ConnectionPtr, std::less<>> waiting{};  // by name

  std::size_t num_strangers() const {
    return connections[kSilent].size() + connections[kGreeted].size() + connections[kLocal].size();
  }
  // The first to go if there are too many strangers; null if there is none below or at `most`.
  ConnectionPtr least_stranger(Standing most) const {
    for (const Standing standing : {kSilent, kGreeted, kLocal})
      if (standing <= most && !connections[standing].empty()) return connections[standing].front();
    return nullptr;
  }
};

// Each function that waits names the function that goes on; close() ends them all. A connection
// lives while it is in a list of Shared, or an operation of its socket is under way.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& io, Shared& shared, int family, int socket)
      : socket_(io, Protocol(family, 0), socket),
        timer_(io),
        shared_(shared),
        standing_(family == AF_UNIX ? kLocal : kSilent) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Moves from a list of its own into that of strangers.
  void start(Connections& own) {
    place_ = own.begin();
    list().splice(list().end(), own, place_);
    or_close([this] {
      close_after(standing_ == kLocal ? shared_.limits.local_time_to_authenticate
                                      : shared_.limits.time_to_authenticate);
      read_frame(kStoreMagic.size() + sizeof(StoreNonce), &Connection::challenge);
    });
  }

  void close() {
    if (!socket_.is_open()) return;
    const ConnectionPtr self = shared_from_this();
    error_code ignored;
    socket_.close(ignored);
    stop_timer();
    stop_waiting();
    list().erase(place_);
  }

 private:
  using Next = void (Connection::*)();

  Connections& list() { return shared_.connections[standing_]; }

  void rise_to(Standing standing) {
    Connections& before = list();
    standing_ = standing;
    list().splice(list().end(), before, place_);
  }

  // Ends the connection if the body runs out of memory.
  template <class Body>
  void or_close(Body body) {
    try {
      body();
    } catch (const std::exception&) {
      close();
    }
  }

  // --- Handshake ---

  void challenge() {
    if (!frame_.starts_with(kStoreMagic)) return close();
    if (standing_ == kSilent) rise_to(kGreeted);
    const StoreNonce own = make_nonce();
    keys_ = derive_keys(shared_.token, array_of(frame_.substr(kStoreMagic.size())), own);
    write_frame(concat(bytes_of(own), bytes_of(keys_.server_proof)), &Connection::await_proof);
  }

  void await_proof() { read_frame(sizeof(StoreMac), &Connection::check_proof); }

  void check_proof() {
    if (!is_same(keys_.client_proof, frame_) ||
        shared_.connections[kClient].size() >= shared_.limits.most_clients)
      return close();
    rise_to(kClient);
    from_client_.emplace(keys_.to_server);
    to_client_.emplace(keys_.to_client);
    answer({});
  }

  // --- Requests ---

  void await_request() {
    stop_timer();
    frame_ = std::string();  // an idle client keeps no memory
    socket_.async_wait(Protocol::socket::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (error) return self->close();
                         self->or_close([&] {
                           self->close_after(self->shared_.limits.time_to_finish_frame);
                           self->read_frame(0, &Connection::take_request);
                         });
                       });
  }

  void take_request() {
    if (!from_client_->open(frame_)) return close();
    const auto request = decode_request(frame_);
    if (!request) return close();
    const StoreAnswer found = shared_.values.perform(*request);
    if (found.status == StoreAnswer::Status::not_set && request->wait.count() > 0)
      return wait_for_value(request->name, request->wait);
    if (found.status == StoreAnswer::Status::done) tell_waiting(request->name);
    answer(found);
  }

  void wait_for_value(const std::string& name, std::chrono::milliseconds time) {
    waiting_ = shared_.waiting.emplace(name, shared_from_this());
    after(time, [this] {
      stop_waiting();
      answer({StoreAnswer::Status::not_set});
    });
    close_if_it_ends();
  }

  // A client that has gone does not wait any longer. What it sends while it waits is read later.
  void close_if_it_ends() {
    socket_.async_wait(
        Protocol::socket::wait_read,
        [self = shared_from_this(), number = num_timers_](const error_code& error) {
          if (!error && self->waiting_ && number == self->num_timers_ && self->has_ended())
            self->close();
        });
  }

  bool has_ended() {
    char byte = 0;
    const ssize_t count =
        recv(socket_.native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  // Sends a value that has been set to all clients that wait for it. A client for whom there is no
  // memory loses its connection.
  void tell_waiting(const std::string& name) {
    for (auto next = shared_.waiting.find(name); next != shared_.waiting.end();
         next = shared_.waiting.find(name)) {
      const ConnectionPtr one = next->second;
      one->stop_waiting();
      one->or_close([&] { one->answer(shared_.values.perform({.name = name})); });
    }
  }

  void stop_waiting() {
    if (waiting_) shared_.waiting.erase(*waiting_);
    waiting_.reset();
  }

  void answer(const StoreAnswer& answer) {
    close_after(shared_.limits.time_to_finish_frame);
    write_frame(to_client_->seal(encode(answer)), &Connection::await_request);
  }

  // --- Frames ---

  std::size_t most_frame_bytes() const { return from_client_ ? kMostPayloadBytes + kMacBytes : 0; }

  // Reads a frame of `size` bytes, or of any size that a client's request may have if it is 0.
  void read_frame(std::size_t size, Next next) {
    frame_.resize(kFrameHeaderBytes);
    read([size, next](Connection& self) {
      const std::size_t announced = frame_size(self.frame_);
      const bool fits =
          size > 0 ? announced == size : announced > 0 && announced <= self.most_frame_bytes();
      if (!fits) return self.close();
      self.frame_.resize(announced);
      self.read([next](Connection& whole) { (whole.*next)(); });
    });
  }

  // Fills frame_.
  template <class Then>
  void read(Then then) {
    asio::async_read(socket_, asio::buffer(frame_),
                     [self = shared_from_this(), then](const error_code& error, std::size_t) {
                       if (error || !self->socket_.is_open()) return self->close();
                       self->or_close([&] { then(*self); });
                     });
  }

  void write_frame(std::string body, Next next) {
    frame_ = frame_header(body.size()) + std::move(body);
    asio::async_write(socket_, asio::buffer(frame_),
                      [self = shared_from_this(), next](const error_code& error, std::size_t) {
                        if (error || !self->socket_.is_open()) return self->close();
                        self->or_close([&] { ((*self).*next)(); });
                      });
  }

  // --- Time ---

  template <class Then>
  void after(std::chrono::milliseconds time, Then then) {
    // cancel() does not stop a queued expiry, so each expiry checks that its timer is still
    // current.
    const std::uint64_t number = ++num_timers_;
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this(), number, then](const error_code& error) {
      if (!error && number == self->num_timers_) self->or_close(then);
    });
  }

  void close_after(std::chrono::milliseconds time) {
    after(time, [this] { close(); });
  }

  void stop_timer() {
    ++num_timers_;
    timer_.cancel();
  }

  Protocol::socket socket_;
  asio::steady_timer timer_;
  std::uint64_t num_timers_ = 0;
  Shared& shared_;
  Standing standing_;
  Connections::iterator place_;
  std::string frame_;  // what is being read or written
  StoreKeys keys_{};
  std::optional<StoreSeal> from_client_, to_client_;  // once it is a client
  std::optional<decltype(Shared::waiting)::iterator> waiting_;
};

}  // namespace

// --- The server ---

class StoreServer::State {
 public:
  State(StoreListener port, Descriptor local, std::string token, const StoreLimits& limits)
      : shared_{std::move(token), within_system(limits)} {
    listeners_.emplace_back(io_, std::move(port.socket), port.family);
    if (local.is_open()) listeners_.emplace_back(io_, std::move(local), AF_UNIX);
    for (Listener& listener : listeners_) accept_later(listener);
  }

  // Its thread takes no signals: they are for the program's own.
  void start_thread(Where where) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw CollectiveError(
          concat("store: the server must be able to start a thread; got ", error.what()), where);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~State() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

 private:
  struct Listener {
    Listener(asio::io_context& io, Descriptor from, int of_family)
        : family(of_family), pause(io), socket(io, from.number()) {
      from.release();
    }
    const int family;
    asio::steady_timer pause;
    ReadySocket socket;         // owns what it was made from, if that did not throw
    bool is_accepting = false;  // true during a pause, too
  };

  // The server goes on accepting when there was no memory to go on with: the handler that threw is
  // not called again. What else is queued has its turn in between, as it may free memory.
  void run() {
    while (!io_.stopped()) try {
        for (Listener& listener : listeners_)
          if (!listener.is_accepting) {
            io_.poll();
            accept_later(listener);
          }
        io_.run();
      } catch (const std::exception&) {
      }
  }

  void accept_later(Listener& listener) {
    listener.socket.async_wait(ReadySocket::wait_read, [this, &listener](const error_code& error) {
      listener.is_accepting = false;
      if (!error) accept_some(listener);
    });
    listener.is_accepting = true;
  }

  void accept_some(Listener& listener) {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      Descriptor socket(
          accept4(listener.socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.is_open())
        take(std::move(socket), listener.family);
      else if (errno == EAGAIN || errno == EWOULDBLOCK)
        break;
      else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        return wait_for_descriptors(listener);
    }
    accept_later(listener);
  }

  void wait_for_descriptors(Listener& listener) {
    if (const auto stranger = shared_.least_stranger(kLocal)) stranger->close();
    listener.pause.expires_after(kPauseWithoutDescriptors);
    listener.pause.async_wait([this, &listener](const error_code& error) {
      listener.is_accepting = false;
      if (!error) accept_later(listener);
    });
    listener.is_accepting = true;
  }

  void take(Descriptor socket, int family) {
    const bool is_local = family == AF_UNIX;
    if (is_local && !is_of_own_user(socket.number())) return;
    if (!is_local) set_client_options(socket.number());
    if (shared_.num_strangers() >= shared_.limits.most_strangers) {
      const auto stranger = shared_.least_stranger(is_local ? kLocal : kGreeted);
      if (!stranger) return;
      stranger->close();
    }
    try {
      Connections added(1);
      added.front() = std::make_shared<Connection>(io_, shared_, family, socket.number());
      socket.release();
      added.front()->start(added);
    } catch (const std::exception&) {  // there is no memory for this connection
    }
  }

  asio::io_context io_{1};
  // Without it the context stops when a handler throws and there is no other.
  const asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Shared shared_;
  std::list<Listener> listeners_;
  std::thread thread_;
};

StoreServer::StoreServer(StoreAddress wanted, Where where)
    : StoreServer(std::move(wanted), StoreLimits(), where) {}

StoreServer::StoreServer(StoreAddress wanted, const StoreLimits& limits, Where where)
    : address_(std::move(wanted)), process_(getpid()) {
  if (address_.token.empty()) address_.token = make_token();
  check_token(address_.token, "store", where);
  StoreListener listener = listen_at(address_, where);
  address_.port = listener.port;
  try {
    state_ = std::make_unique<State>(std::move(listener), listen_locally(address_), address_.token,
                                     limits);
  } catch (const std::system_error& error) {
    throw CollectiveError(
        concat("store: the server must be able to wait for clients; got ", error.what()), where);
  }
  state_->start_thread(where);
}

// A forked child has copies of the sockets, of Asio's epoll instance (which it shares with its
// parent), and of state that the parent's thread may have been changing; it does not have the
// thread. It must leave all of them alone.
StoreServer::~StoreServer() {
  if (getpid() == process_) return;
  static auto* const kept = new std::vector<State*>;
  kept->push_back(state_.release());
}

}  // namespace ringrad
