// MessageStream: messages between the launcher and an agent, over two pipes or whatever a remote
// shell makes of them. Neither side ever waits for the other: bytes that do not fit into a pipe are
// kept until they do.
//
//     3:S15           length in decimal, colon, that many bytes: the kind of message (one
//                     character) and its text
//
// Both sides send something every second, so a side that hears nothing for long may take the other
// for lost. It counts only time in which it has itself listened (running_time.h). The reader states
// how long messages may be, and keeps at most one such message and the bytes of one more read.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/running_time.h"

namespace ringrad {

struct Message {
  enum Kind : char {
    hello = 'H',     ///< agent: here I am; its version
    job = 'J',       ///< launcher: what to start
    line = 'L',      ///< agent: "RANK STREAM text", a line that a rank wrote to stream 1 or 2
    progress = 'P',  ///< agent: the same for what a line shows so far (line_reader.h)
    blames = 'B',   ///< agent: "RANK CULPRIT" before the rank's `ended`: its report; -1 for no rank
    ended = 'E',    ///< agent: "RANK STATUS", as waitpid() gives it
    failed = 'F',   ///< agent: it cannot start the job; why
    leaving = 'X',  ///< agent: it ends its ranks; why
    signal = 'S',   ///< launcher: a number, for all ranks
    hold = 'W',     ///< launcher: "1": read nothing more from the ranks; "0": read on
    alive = 'A',    ///< both: nothing new
  };

  Kind kind;
  std::string text;

  bool operator==(const Message&) const = default;
};

/// The longest message that an agent accepts: a job with its environment and arguments.
inline constexpr std::size_t kLongestFromLauncher = 16 << 20;
/// The longest message that a launcher accepts: a rank's line (kLongestLine) with the rank's
/// number. kLongestHello applies until the agent has sent its version.
inline constexpr std::size_t kLongestFromAgent = (16 << 20) + 64, kLongestHello = 64;

/// How long launcher and agents wait for input before they look at the time.
inline constexpr std::chrono::milliseconds kListenTime{100};

/// Foreign bytes as an error may show them: the first line, at most 100 characters, '?' for what
/// cannot be printed.
std::string shown(std::string_view bytes);

/// Takes the first message off the front of `bytes` if it is complete.
///
/// Throws: Error if `bytes` cannot be the beginning of a message of at most `longest` bytes
std::optional<Message> take_message(std::string_view& bytes, std::size_t longest, Where where);

/// A message about a rank: "RANK NUMBER", for lines followed by a space and the text.
struct RankMessage {
  int rank = 0, number = 0;
  std::string_view text{};  ///< of the message that was parsed

  bool operator==(const RankMessage&) const = default;
};

/// None if it is not such a message, with a number of `least_number` or more.
std::optional<RankMessage> parse_rank_message(std::string_view text, int least_number = 0);

/// Has reads and writes return at once where they would wait.
void make_non_blocking(const Descriptor& file);

class MessageStream {
 public:
  using Clock = std::chrono::steady_clock;

  /// Neither end will block from now on.
  MessageStream(Descriptor in, Descriptor out, std::size_t longest);

  /// How long the messages may be that it receives from now on.
  void set_longest(std::size_t bytes) { longest_ = bytes; }

  int in() const { return in_.number(); }
  int out() const { return out_.number(); }
  /// False once the other side has closed its end.
  bool is_open() const { return in_.is_open(); }

  void send(Message::Kind kind, const std::string& text);
  /// How much the other side has not taken yet.
  std::size_t num_unsent() const { return unsent_.size() - num_sent_; }
  /// Writes what fits.
  void write_some();
  /// Nothing more is sent; the other side will see the end.
  void close_out() { out_.reset(); }
  void close() {
    in_.reset();
    out_.reset();
  }

  /// Says that this side is alive, if it has said nothing for a second.
  void keep_alive();
  /// How long the other side has been silent while this side listened.
  ///
  /// REQUIRES: this is called once per kListenTime or more often, if the machine permits
  Clock::duration silence() { return silence_.advance(); }

  /// Reads what is there. REQUIRES: something is, or the end
  void read_some();
  /// The next message that is complete. Throws: Error if it cannot be one
  std::optional<Message> next(Where where);

 private:
  Descriptor in_, out_;
  std::size_t longest_;
  std::string unsent_, received_;
  std::size_t num_sent_ = 0;   // bytes of unsent_
  std::size_t num_taken_ = 0;  // bytes of received_
  RunningTime silence_{kListenTime};
  Clock::time_point last_sent_;
};

}  // namespace ringrad
