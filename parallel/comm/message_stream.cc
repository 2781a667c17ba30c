#include "parallel/comm/message_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

namespace ringrad {
namespace {

constexpr auto kPulse = std::chrono::seconds(1);
constexpr std::size_t kLongestMessage = 16 << 20;

void make_non_blocking(const Descriptor& file) {
  fcntl(file.number(), F_SETFL, fcntl(file.number(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

MessageStream::MessageStream(Descriptor in, Descriptor out)
    : in_(std::move(in)), out_(std::move(out)) {
  make_non_blocking(in_);
  make_non_blocking(out_);
}

void MessageStream::send(Message::Kind kind, const std::string& text) {
  if (!out_.is_open()) return;
  unsent_ += std::to_string(text.size() + 1) + ':' + static_cast<char>(kind) + text;
  last_sent_ = Clock::now();
  write_some();
}

void MessageStream::write_some() {
  while (!unsent_.empty() && out_.is_open()) {
    const ssize_t count = write(out_.number(), unsent_.data(), unsent_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) out_.reset();  // nobody reads: the other stream will tell
    unsent_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  if (!out_.is_open()) unsent_.clear();
}

void MessageStream::keep_alive() {
  if (Clock::now() - last_sent_ >= kPulse && unsent_.empty()) send(Message::alive, "");
}

void MessageStream::read_some() {
  char buffer[64 * 1024];
  const ssize_t count = read(in_.number(), buffer, sizeof buffer);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return in_.reset();
  received_.erase(0, std::exchange(num_taken_, 0));
  received_.append(buffer, static_cast<std::size_t>(count));
  last_heard_ = Clock::now();
}

std::optional<Message> MessageStream::next(Where where) {
  const std::string_view unread = std::string_view(received_).substr(num_taken_);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(unread.data(), unread.data() + unread.size(), size);
  const auto num_digits = static_cast<std::size_t>(end - unread.data());
  const bool is_number = error == std::errc() && size >= 1 && size <= kLongestMessage;
  const bool is_cut_off = num_digits == unread.size();
  RINGRAD_CHECK(unread.empty() || (is_number && (is_cut_off || *end == ':')), Error, where,
                "launch: an agent and its launcher must speak in messages; got \"",
                unread.substr(0, std::min<std::size_t>(unread.find('\n'), 100)), '"');
  if (is_cut_off || unread.size() < num_digits + 1 + size) return {};
  const std::string_view message = unread.substr(num_digits + 1, size);
  num_taken_ += num_digits + 1 + size;
  return Message{static_cast<Message::Kind>(message[0]), std::string(message.substr(1))};
}

}  // namespace ringrad
