#include "ringrad/parallel/comm/store/store_server.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/store_listener.h"
#include "ringrad/parallel/comm/store/store_local.h"
#include "ringrad/parallel/comm/store/store_session.h"

namespace ringrad {
namespace {

using asio::error_code;
using ReadySocket = asio::posix::stream_descriptor;

constexpr int kAcceptedAtOnce = 16;  // then connections that are open have their turn
constexpr auto kPauseWithoutDescriptors = std::chrono::milliseconds(50);

StoreLimits within_system(StoreLimits limits) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  limits.most_strangers = std::clamp<std::size_t>(files.rlim_cur / 4, 1, limits.most_strangers);
  return limits;
}

}  // namespace

// --- The server ---

class StoreServer::State {
 public:
  State(StoreListener port, Descriptor local, std::string token, const StoreLimits& limits)
      : sessions_{std::move(token), within_system(limits)} {
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
    if (const auto stranger = sessions_.least_stranger(kLocal)) stranger->close();
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
    if (sessions_.num_strangers() >= sessions_.limits.most_strangers) {
      const auto stranger = sessions_.least_stranger(is_local ? kLocal : kGreeted);
      if (!stranger) return;
      stranger->close();
    }
    try {
      StoreSessionList added(1);
      added.front() = std::make_shared<StoreSession>(io_, sessions_, family, socket.number());
      socket.release();
      added.front()->start(added);
    } catch (const std::exception&) {  // there is no memory for this connection
    }
  }

  asio::io_context io_{1};
  // Without it the context stops when a handler throws and there is no other.
  const asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  StoreSessions sessions_;
  std::list<Listener> listeners_;
  std::thread thread_;
};

StoreServer::StoreServer(StoreAddress wanted, Where where)
    : StoreServer(std::move(wanted), StoreLimits(), where) {}

StoreServer::StoreServer(StoreAddress wanted, const StoreLimits& limits, Where where)
    : address_(std::move(wanted)) {
  if (address_.token.empty()) address_.token = make_token();
  check_token(address_.token, "store", where);
  StoreListener listener = listen_at(address_, where);
  address_.port = listener.port;
  try {
    state_.reset(new State(std::move(listener), listen_locally(address_), address_.token, limits));
  } catch (const std::system_error& error) {
    throw CollectiveError(
        concat("store: the server must be able to wait for clients; got ", error.what()), where);
  }
  state_->start_thread(where);
}

StoreServer::~StoreServer() = default;

}  // namespace ringrad
