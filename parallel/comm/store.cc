#include "parallel/comm/store.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <condition_variable>
#include <functional>
#include <iomanip>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "parallel/comm/descriptor.h"
#include "parallel/comm/no_broken_pipe.h"
#include "parallel/comm/system_limits.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPath = "/values/";
constexpr const char* kWait =
    "Wait-Milliseconds";  // how long the server waits for a value to be set
constexpr const char* kOnlyFirst = "If-None-Match";
constexpr auto kLongestWait = std::chrono::milliseconds(1000);  // so that it can end
constexpr auto kAnswerTime = std::chrono::seconds(10);  // a server that lives answers by then
constexpr auto kPause = std::chrono::milliseconds(20);  // between tries to reach a server

// A connection lasts, and its client may wait for others: each has a thread.
class ThreadPerConnection : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> serve) override {
    const std::lock_guard lock(mutex_);
    join_ended();
    const auto place = running_.emplace(running_.end());
    try {
      *place = std::thread([this, serve, place] {
        serve();
        const std::lock_guard ended(mutex_);
        ended_.splice(ended_.end(), running_, place);
        if (running_.empty()) none_.notify_all();
      });
    } catch (const std::system_error&) {  // no more threads: one after the other
      running_.erase(place);
      serve();
    }
  }

  void shutdown() override {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [&] { return running_.empty(); });
    join_ended();
  }

 private:
  void join_ended() {
    for (std::thread& thread : ended_) thread.join();
    ended_.clear();
  }

  std::mutex mutex_;
  std::condition_variable none_;
  std::list<std::thread> running_, ended_;
};

std::optional<std::int64_t> parse_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace

std::string make_token() {
  std::random_device random;
  std::ostringstream token;
  for (int i = 0; i < 4; ++i) token << std::hex << std::setw(8) << std::setfill('0') << random();
  return std::move(token).str();
}

// --- Server ------------------------------------------------------------------------------------------

struct StoreServer::State {
  httplib::Server http;
  std::thread thread;
  std::atomic<bool> has_ended{false};  // its thread: listening may fail
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::map<std::string, std::string> values;
  bool ending = false;

  void put(const std::string& name, const std::string& value, bool only_first,
           httplib::Response& response) {
    const std::lock_guard lock(mutex);
    const auto [place, is_first] = values.try_emplace(name, value);
    if (only_first && !is_first) {
      response.status = 412;
      response.set_content(place->second, "application/octet-stream");
      return;
    }
    place->second = value;
    changed.notify_all();
  }

  void get(const std::string& name, std::chrono::milliseconds wait, httplib::Response& response) {
    std::unique_lock lock(mutex);
    const auto is_set = [&] { return values.contains(name); };
    changed.wait_for(lock, wait, [&] { return is_set() || ending; });
    if (is_set())
      response.set_content(values[name], "application/octet-stream");
    else
      response.status = 404;
  }

  void add(const std::string& name, const std::string& amount, httplib::Response& response) {
    const std::lock_guard lock(mutex);
    const auto found = values.find(name);
    const auto more = parse_number(amount);
    const auto number = parse_number(found == values.end() ? "0" : found->second);
    if (!more || !number) {
      response.status = 400;
      response.set_content("only numbers can be added", "text/plain");
      return;
    }
    values[name] = std::to_string(*number + *more);
    response.set_content(values[name], "text/plain");
    changed.notify_all();
  }
};

StoreServer::StoreServer(StoreAddress wanted, Where where)
    : address_(std::move(wanted)), state_(std::make_unique<State>()) {
  if (address_.token.empty()) address_.token = make_token();
  httplib::Server& http = state_->http;
  http.new_task_queue = [] { return new ThreadPerConnection; };
  http.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
  http.set_keep_alive_timeout(1);  // seconds that an idle connection holds up the end
  // The library's default would let two servers share a port.
  int listener = -1;
  http.set_socket_options([&](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listener = socket;
  });
  http.set_tcp_nodelay(true);
  http.set_pre_routing_handler(
      [token = "Bearer " + address_.token](const auto& request, auto& response) {
        if (request.get_header_value("Authorization") == token)
          return httplib::Server::HandlerResponse::Unhandled;
        response.status = 401;
        return httplib::Server::HandlerResponse::Handled;
      });
  const std::string pattern = std::string(kPath) + "(.+)";
  State& state = *state_;
  using httplib::Request;
  using httplib::Response;
  http.Put(pattern, [&](const Request& request, Response& response) {
    state.put(request.matches[1], request.body, request.has_header(kOnlyFirst), response);
  });
  http.Get(pattern, [&](const Request& request, Response& response) {
    const std::chrono::milliseconds wait(parse_number(request.get_header_value(kWait)).value_or(0));
    state.get(request.matches[1], std::min(wait, kLongestWait), response);
  });
  http.Post(pattern, [&](const Request& request, Response& response) {
    state.add(request.matches[1], request.body, response);
  });
  bool bound = false;
  if (address_.port == 0) {
    address_.port = http.bind_to_any_port(address_.host);
    bound = address_.port > 0;
  } else {
    bound = http.bind_to_port(address_.host, address_.port);
  }
  RINGRAD_CHECK(bound, CollectiveError, where,
                "store: the server must be able to listen; got none at ", address_.host, ':',
                address_.port, ", which is in use or not an address of this machine");
  ::listen(listener, SOMAXCONN);  // the library's queue holds five: all ranks come at the same time
  state_->thread = std::thread([&state] {
    state.http.listen_after_bind();
    state.has_ended = true;
  });
  // The library makes tables for its first request, and frees them at the program's end. A server that has answered
  // is younger than they are, so a static one ends before they do.
  try {
    Store(address_).find("ready", where);
  } catch (...) {
    stop();
    throw;
  }
}

StoreServer::~StoreServer() { stop(); }

void StoreServer::stop() {
  // stop() does nothing before the thread has begun to listen.
  while (!state_->http.is_running() && !state_->has_ended) std::this_thread::yield();
  state_->http.stop();
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

// --- Client ------------------------------------------------------------------------------------------

// A status of 0 means that no server answered, one below that none can; then the body says why.
struct Answer {
  int status;
  std::string body;
};

// The connection, which lasts.
struct Store::Http {
  Http(const StoreAddress& address, std::chrono::milliseconds answer_time)
      : client(address.host, address.port),
        authorization("Bearer " + address.token),
        longest_wait(std::min(kLongestWait, answer_time / 2)) {
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    client.set_connection_timeout(answer_time);
    client.set_read_timeout(answer_time);
  }

  Answer ask(const char* method, const std::string& name, const std::string& body,
             httplib::Headers headers, Where where) {
    // What a path may hold as it is.
    const auto is_plain = [](unsigned char c) {
      return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
    };
    RINGRAD_CHECK(!name.empty() && std::all_of(name.begin(), name.end(), is_plain), ValueError,
                  where, "store: a name must be letters, digits, and . _ - /; got \"", name, '"');
    httplib::Request request;
    request.method = method;
    request.path = kPath + name;
    request.headers = std::move(headers);
    request.headers.emplace("Authorization", authorization);
    request.body = body;
    const NoBrokenPipe guard;
    httplib::Result result = client.send(request);
    // The server closes what has been idle, and the request may just have missed it.
    if (!result && result.error() == httplib::Error::Write) result = client.send(request);
    if (!result) return no_answer(result.error());
    return {result->status, result->body};
  }

  // The library does not say that it could not make a socket.
  static Answer no_answer(httplib::Error error) {
    const Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe.is_open()) return {-1, text_of_errno(errno)};
    return {0, httplib::to_string(error)};
  }

  httplib::Client client;
  const std::string authorization;
  const std::chrono::milliseconds longest_wait;  // for a value, of one request
};

Store::Store(const StoreAddress& address, std::chrono::milliseconds timeout, Where where)
    : Store(address, timeout, kAnswerTime, where) {}

Store::Store(const StoreAddress& address, std::chrono::milliseconds timeout,
             std::chrono::milliseconds answer_time, Where where)
    : address_(address), timeout_(timeout), http_(std::make_unique<Http>(address, answer_time)) {
  const auto end = Clock::now() + timeout;
  for (;;) {
    const Answer answer = http_->ask("GET", "any", "", {}, where);
    if (answer.status == 401)
      throw CollectiveError(concat("store: the server at ", address_.host, ':', address_.port,
                                   " must have this job's token; got one of another job"),
                            where);
    if (answer.status > 0) return;
    if (answer.status < 0 || Clock::now() >= end) fail(answer.body, where);
    std::this_thread::sleep_for(kPause);
  }
}

Store Store::another(std::chrono::milliseconds timeout, Where where) const {
  return Store(address_, timeout, std::min<std::chrono::milliseconds>(timeout, kAnswerTime), where);
}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

void Store::set(const std::string& name, const std::string& value, Where where) {
  const Answer answer = http_->ask("PUT", name, value, {}, where);
  if (answer.status != 200) fail(answer.body, where);
}

std::string Store::get(const std::string& name, Where where) {
  const auto end = Clock::now() + timeout_;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const auto wait = std::clamp(left, left.zero(), http_->longest_wait);
    Answer answer = http_->ask("GET", name, "", {{kWait, std::to_string(wait.count())}}, where);
    if (answer.status == 200) return std::move(answer.body);
    if (answer.status != 404) fail(answer.body, where);
    if (Clock::now() >= end)
      throw CollectiveError(
          concat("store: \"", name, "\" must be set within ",
                 std::chrono::duration<double>(timeout_).count(), " s; got nothing"),
          where);
  }
}

std::optional<std::string> Store::find(const std::string& name, Where where) {
  Answer answer = http_->ask("GET", name, "", {}, where);
  if (answer.status == 200) return std::move(answer.body);
  if (answer.status != 404) fail(answer.body, where);
  return {};
}

std::string Store::set_first(const std::string& name, const std::string& value, Where where) {
  Answer answer = http_->ask("PUT", name, value, {{kOnlyFirst, "*"}}, where);
  if (answer.status == 200) return value;
  if (answer.status != 412) fail(answer.body, where);
  return std::move(answer.body);
}

std::int64_t Store::add(const std::string& name, std::int64_t amount, Where where) {
  const Answer answer = http_->ask("POST", name, std::to_string(amount), {}, where);
  if (answer.status != 200) fail(answer.body, where);
  return parse_number(answer.body).value_or(0);
}

void Store::fail(const std::string& got, Where where) const {
  throw CollectiveError(concat("store: the server at ", address_.host, ':', address_.port,
                               " must answer; got ", got.empty() ? "no reason" : got),
                        where);
}

}  // namespace ringrad
