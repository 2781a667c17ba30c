#include "ringrad/parallel/comm/job/message_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

namespace ringrad {
namespace {

constexpr auto kPulse = std::chrono::seconds(1);

}  // namespace

std::string shown(std::string_view bytes) {
  std::string text(bytes.substr(0, std::min<std::size_t>(bytes.find('\n'), 100)));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

void make_non_blocking(const Descriptor& file) {
  fcntl(file.number(), F_SETFL, fcntl(file.number(), F_GETFL) | O_NONBLOCK);
}

std::optional<Message> take_message(std::string_view& bytes, std::size_t longest, Where where) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
  const auto num_digits = static_cast<std::size_t>(end - bytes.data());
  const bool is_number = error == std::errc() && bytes[0] != '0';
  const bool is_cut_off = num_digits == bytes.size();
  RINGRAD_CHECK(bytes.empty() || (is_number && (is_cut_off || *end == ':')), Error, where,
                "launch: an agent and its launcher must speak in messages; got \"", shown(bytes),
                '"');
  RINGRAD_CHECK(size <= longest, Error, where, "launch: a message must have at most ", longest,
                " bytes here; got one of ", size);
  if (is_cut_off || bytes.size() - num_digits - 1 < size) return {};
  Message message{static_cast<Message::Kind>(bytes[num_digits + 1]),
                  std::string(bytes.substr(num_digits + 2, size - 1))};
  bytes.remove_prefix(num_digits + 1 + size);
  return message;
}

std::optional<RankMessage> parse_rank_message(std::string_view text, int least_number) {
  RankMessage message;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int* const value : {&message.rank, &message.number}) {
    if (value == &message.number && (at == end || *at++ != ' ')) return {};
    const auto [stop, error] = std::from_chars(at, end, *value);
    if (error != std::errc() || *value < (value == &message.rank ? 0 : least_number)) return {};
    at = stop;
  }
  if (at != end && *at++ != ' ') return {};
  message.text = text.substr(static_cast<std::size_t>(at - text.data()));
  return message;
}

MessageStream::MessageStream(Descriptor in, Descriptor out, std::size_t longest)
    : in_(std::move(in)), out_(std::move(out)), longest_(longest) {
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
  while (num_unsent() > 0 && out_.is_open()) {
    const ssize_t count = write(out_.number(), unsent_.data() + num_sent_, num_unsent());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) out_.reset();  // the reader is gone: the other stream will tell
    num_sent_ += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  if (!out_.is_open()) num_sent_ = unsent_.size();
  // Half at a time, since a line may be long.
  if (num_sent_ >= num_unsent()) unsent_.erase(0, std::exchange(num_sent_, 0));
}

void MessageStream::keep_alive() {
  if (Clock::now() - last_sent_ >= kPulse && num_unsent() == 0) send(Message::alive, "");
}

void MessageStream::read_some() {
  char buffer[64 * 1024];
  const ssize_t count = read(in_.number(), buffer, sizeof buffer);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return in_.reset();
  received_.erase(0, std::exchange(num_taken_, 0));
  received_.append(buffer, static_cast<std::size_t>(count));
  silence_ = RunningTime(kListenTime);
}

std::optional<Message> MessageStream::next(Where where) {
  std::string_view unread = std::string_view(received_).substr(num_taken_);
  auto message = take_message(unread, longest_, where);
  num_taken_ = received_.size() - unread.size();
  return message;
}

}  // namespace ringrad
