#include "ringrad/parallel/comm/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "ringrad/parallel/comm/store/store_connection.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;
using Operation = StoreRequest::Operation;
using Status = StoreAnswer::Status;
using std::chrono::milliseconds;

// A server that lives answers by then.
constexpr milliseconds kAnswerTime = std::chrono::seconds(10);
constexpr milliseconds kLongestAnswerTime = std::chrono::hours(1);  // of one on this machine
constexpr auto kPause = milliseconds(20);  // between tries to reach a server

// A longer time would overflow.
Clock::time_point in(milliseconds time) {
  return Clock::now() + std::min<milliseconds>(time, std::chrono::hours(24 * 365));
}

}  // namespace

Store::Store(const StoreAddress& address, milliseconds timeout, Where where)
    : Store(address, timeout, std::nullopt, where) {}

Store::Store(const StoreAddress& address, milliseconds timeout,
             std::optional<milliseconds> most_answer_time, Where where)
    : address_(address), timeout_(timeout), most_answer_time_(most_answer_time) {
  const auto end = in(timeout);
  for (;;) {
    try {
      const auto left = end - Clock::now();
      connection_ = std::make_unique<StoreConnection>(
          address, std::min<Clock::duration>(left, answer_time(false)),
          std::min<Clock::duration>(left, answer_time(true)));
      return;
    } catch (const SilentServer& error) {
      if (Clock::now() + kPause >= end) fail(error.what(), where);
    } catch (const ForeignServer& error) {
      throw CollectiveError(concat("store: the server at ", address.host, ':', address.port,
                                   " must have this job's token; got ", error.what()),
                            where);
    } catch (const NoSocket& error) {
      fail(error.what(), where);
    }
    std::this_thread::sleep_for(kPause);
  }
}

Store Store::another(milliseconds timeout, Where where) const {
  Store other(address_, timeout, std::min<milliseconds>(timeout, kAnswerTime), where);
  other.server_rank_ = server_rank_;
  return other;
}

milliseconds Store::answer_time(bool is_local) const {
  if (most_answer_time_) return *most_answer_time_;
  return is_local ? std::clamp(timeout_, kAnswerTime, kLongestAnswerTime) : kAnswerTime;
}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

StoreAnswer Store::ask(const StoreRequest& request, Where where) {
  RINGRAD_CHECK(is_store_name(request.name), ValueError, where, "store: a name must be letters, ",
                "digits, and . _ - /, at most ", kMostNameBytes, "; got \"",
                request.name.substr(0, 100), '"');
  RINGRAD_CHECK(request.value.size() <= kMostValueBytes, ValueError, where, "store: the value of ",
                request.name, " must have at most ", kMostValueBytes, " bytes; got ",
                request.value.size());
  try {
    if (!connection_ || connection_->process() != getpid())
      connection_ =
          std::make_unique<StoreConnection>(address_, answer_time(false), answer_time(true));
    StoreAnswer answer = connection_->ask(request, answer_time(connection_->is_local()));
    if (answer.status != Status::refused) return answer;
    fail(answer.text, where);
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::runtime_error& error) {
    connection_.reset();
    fail(error.what(), where);
  }
}

void Store::set(const std::string& name, const std::string& value, Where where) {
  ask({.operation = Operation::set, .name = name, .value = value}, where);
}

std::string Store::get(const std::string& name, Where where) {
  const auto end = in(timeout_);
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    // The server has half of the time for an answer to wait, and the other half to answer.
    const bool is_local = connection_ && connection_->is_local();
    const auto wait = std::clamp(left, milliseconds(), answer_time(is_local) / 2);
    StoreAnswer answer = ask({.operation = Operation::get, .name = name, .wait = wait}, where);
    if (answer.status == Status::done) return std::move(answer.text);
    if (Clock::now() >= end)
      throw CollectiveError(
          concat("store: \"", name, "\" must be set within ",
                 std::chrono::duration<double>(timeout_).count(), " s; got nothing"),
          where);
  }
}

std::optional<std::string> Store::find(const std::string& name, Where where) {
  StoreAnswer answer = ask({.operation = Operation::get, .name = name}, where);
  if (answer.status != Status::done) return {};
  return std::move(answer.text);
}

std::string Store::set_first(const std::string& name, const std::string& value, Where where) {
  StoreAnswer answer =
      ask({.operation = Operation::set_first, .name = name, .value = value}, where);
  return answer.status == Status::taken ? std::move(answer.text) : value;
}

std::int64_t Store::add(const std::string& name, std::int64_t amount, Where where) {
  const StoreAnswer answer =
      ask({.operation = Operation::add, .name = name, .amount = amount}, where);
  return parse_number(answer.text).value_or(0);
}

void Store::fail(const std::string& got, Where where) const {
  const std::string owner = server_rank_ ? concat(", in rank ", *server_rank_, " of the job,") : "";
  throw CollectiveError(concat("store: the server at ", address_.host, ':', address_.port, owner,
                               " must answer; got ", got.empty() ? "no reason" : got),
                        where);
}

}  // namespace ringrad
