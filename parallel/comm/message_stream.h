// MessageStream: messages between the launcher and an agent, over two pipes or whatever a remote shell makes of
// them. Neither side ever waits for the other: what does not fit is kept until it does.
//
//     3:S15           length in decimal, colon, that many bytes: the kind of message, one letter, and its text
//
// Both sides say something every second; who hears nothing for long may take the other for lost.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "core/error.h"
#include "parallel/comm/descriptor.h"

namespace ringrad {

struct Message {
  enum Kind : char {
    hello = 'H',    ///< agent: here I am; its version
    job = 'J',      ///< launcher: what to start
    line = 'L',     ///< agent: "RANK STREAM text", what a rank wrote to stream 1 or 2
    ended = 'E',    ///< agent: "RANK STATUS", as waitpid() gives it
    failed = 'F',   ///< agent: it cannot start the job; why
    leaving = 'X',  ///< agent: it ends its ranks; why
    signal = 'S',   ///< launcher: a number, for all ranks
    alive = 'A',    ///< both: nothing new
  };

  Kind kind;
  std::string text;
};

class MessageStream {
 public:
  using Clock = std::chrono::steady_clock;

  /// Neither end will block from now on.
  MessageStream(Descriptor in, Descriptor out);

  int in() const { return in_.number(); }
  int out() const { return out_.number(); }
  /// False once the other side has closed its end.
  bool is_open() const { return in_.is_open(); }

  void send(Message::Kind kind, const std::string& text);
  /// How much the other side has not taken yet.
  std::size_t num_unsent() const { return unsent_.size(); }
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
  /// How long the other side has been silent.
  Clock::duration silence() const { return Clock::now() - last_heard_; }

  /// Reads what is there. REQUIRES: something is, or the end
  void read_some();
  /// The next message that is complete. Throws: Error if it cannot be one
  std::optional<Message> next(Where where);

 private:
  Descriptor in_, out_;
  std::string unsent_, received_;
  std::size_t num_taken_ = 0;  // bytes of what was received
  Clock::time_point last_heard_ = Clock::now(), last_sent_;
};

}  // namespace ringrad
