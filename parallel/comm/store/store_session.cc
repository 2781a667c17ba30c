#include "ringrad/parallel/comm/store/store_session.h"

#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <exception>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad {

using asio::error_code;

std::size_t StoreSessions::num_strangers() const {
  return of_standing[kSilent].size() + of_standing[kGreeted].size() + of_standing[kLocal].size();
}

StoreSessionPtr StoreSessions::least_stranger(StoreStanding most) const {
  for (const StoreStanding standing : {kSilent, kGreeted, kLocal})
    if (standing <= most && !of_standing[standing].empty()) return of_standing[standing].front();
  return nullptr;
}

StoreSession::StoreSession(asio::io_context& io, StoreSessions& all, int family, int socket)
    : socket_(io, Protocol(family, 0), socket),
      timer_(io),
      all_(all),
      standing_(family == AF_UNIX ? kLocal : kSilent) {}

void StoreSession::start(StoreSessionList& own) {
  place_ = own.begin();
  list().splice(list().end(), own, place_);
  or_close([this] {
    close_after(standing_ == kLocal ? all_.limits.local_time_to_authenticate
                                    : all_.limits.time_to_authenticate);
    read_frame(kStoreMagic.size() + sizeof(StoreNonce), &StoreSession::challenge);
  });
}

void StoreSession::close() {
  if (!socket_.is_open()) return;
  const StoreSessionPtr self = shared_from_this();
  error_code ignored;
  socket_.close(ignored);
  stop_timer();
  stop_waiting();
  list().erase(place_);
}

void StoreSession::rise_to(StoreStanding standing) {
  StoreSessionList& before = list();
  standing_ = standing;
  list().splice(list().end(), before, place_);
}

// Ends the connection if the body runs out of memory.
template <class Body>
void StoreSession::or_close(Body body) {
  try {
    body();
  } catch (const std::exception&) {
    close();
  }
}

// --- Handshake ---

void StoreSession::challenge() {
  if (!frame_.starts_with(kStoreMagic)) return close();
  if (standing_ == kSilent) rise_to(kGreeted);
  const StoreNonce own = make_nonce();
  keys_ = derive_keys(all_.token, array_of(frame_.substr(kStoreMagic.size())), own);
  write_frame(concat(bytes_of(own), bytes_of(keys_.server_proof)), &StoreSession::await_proof);
}

void StoreSession::await_proof() { read_frame(sizeof(StoreMac), &StoreSession::check_proof); }

void StoreSession::check_proof() {
  if (!is_same(keys_.client_proof, frame_) ||
      all_.of_standing[kClient].size() >= all_.limits.most_clients)
    return close();
  rise_to(kClient);
  from_client_.emplace(keys_.to_server);
  to_client_.emplace(keys_.to_client);
  answer({});
}

// --- Requests ---

void StoreSession::await_request() {
  stop_timer();
  frame_ = std::string();  // an idle client keeps no memory
  socket_.async_wait(Protocol::socket::wait_read,
                     [self = shared_from_this()](const error_code& error) {
                       if (error) return self->close();
                       self->or_close([&] {
                         self->close_after(self->all_.limits.time_to_finish_frame);
                         self->read_frame(0, &StoreSession::take_request);
                       });
                     });
}

void StoreSession::take_request() {
  if (!from_client_->open(frame_)) return close();
  const auto request = decode_request(frame_);
  if (!request) return close();
  const StoreAnswer found = all_.values.perform(*request);
  if (found.status == StoreAnswer::Status::not_set && request->wait.count() > 0)
    return wait_for_value(request->name, request->wait);
  if (found.status == StoreAnswer::Status::done) tell_waiting(request->name);
  answer(found);
}

void StoreSession::wait_for_value(const std::string& name, std::chrono::milliseconds time) {
  waiting_ = all_.waiting.emplace(name, shared_from_this());
  after(time, [this] {
    stop_waiting();
    answer({StoreAnswer::Status::not_set});
  });
  close_if_it_ends();
}

// A client that has gone does not wait any longer. What it sends while it waits is read later.
void StoreSession::close_if_it_ends() {
  socket_.async_wait(Protocol::socket::wait_read, [self = shared_from_this(),
                                                   number = num_timers_](const error_code& error) {
    if (!error && self->waiting_ && number == self->num_timers_ && self->has_ended()) self->close();
  });
}

bool StoreSession::has_ended() {
  char byte = 0;
  const ssize_t count = recv(socket_.native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// Sends a value that has been set to all clients that wait for it. A client for whom there is no
// memory loses its connection.
void StoreSession::tell_waiting(const std::string& name) {
  for (auto next = all_.waiting.find(name); next != all_.waiting.end();
       next = all_.waiting.find(name)) {
    const StoreSessionPtr one = next->second;
    one->stop_waiting();
    one->or_close([&] { one->answer(all_.values.perform({.name = name})); });
  }
}

void StoreSession::stop_waiting() {
  if (waiting_) all_.waiting.erase(*waiting_);
  waiting_.reset();
}

void StoreSession::answer(const StoreAnswer& answer) {
  close_after(all_.limits.time_to_finish_frame);
  write_frame(to_client_->seal(encode(answer)), &StoreSession::await_request);
}

// --- Frames ---

std::size_t StoreSession::most_frame_bytes() const {
  return from_client_ ? kMostPayloadBytes + kMacBytes : 0;
}

// Reads a frame of `size` bytes, or of any size that a client's request may have if it is 0.
void StoreSession::read_frame(std::size_t size, Next next) {
  frame_.resize(kFrameHeaderBytes);
  read([size, next](StoreSession& self) {
    const std::size_t announced = frame_size(self.frame_);
    const bool fits =
        size > 0 ? announced == size : announced > 0 && announced <= self.most_frame_bytes();
    if (!fits) return self.close();
    self.frame_.resize(announced);
    self.read([next](StoreSession& whole) { (whole.*next)(); });
  });
}

// Fills frame_.
template <class Then>
void StoreSession::read(Then then) {
  asio::async_read(socket_, asio::buffer(frame_),
                   [self = shared_from_this(), then](const error_code& error, std::size_t) {
                     if (error || !self->socket_.is_open()) return self->close();
                     self->or_close([&] { then(*self); });
                   });
}

void StoreSession::write_frame(std::string body, Next next) {
  frame_ = frame_header(body.size()) + std::move(body);
  asio::async_write(socket_, asio::buffer(frame_),
                    [self = shared_from_this(), next](const error_code& error, std::size_t) {
                      if (error || !self->socket_.is_open()) return self->close();
                      self->or_close([&] { ((*self).*next)(); });
                    });
}

// --- Time ---

template <class Then>
void StoreSession::after(std::chrono::milliseconds time, Then then) {
  // cancel() does not stop a queued expiry, so each expiry checks that its timer is still
  // current.
  const std::uint64_t number = ++num_timers_;
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), number, then](const error_code& error) {
    if (!error && number == self->num_timers_) self->or_close(then);
  });
}

void StoreSession::close_after(std::chrono::milliseconds time) {
  after(time, [this] { close(); });
}

void StoreSession::stop_timer() {
  ++num_timers_;
  timer_.cancel();
}

}  // namespace ringrad
