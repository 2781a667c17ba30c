#include "parallel/comm/message_stream.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/agent.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

// A stream whose other ends the test has.
struct Ends {
  Pipe to = make_pipe(Where::current()), from = make_pipe(Where::current());
  MessageStream stream{std::move(to.out), std::move(from.in)};

  void say(const std::string& bytes) {
    ASSERT_EQ(write(to.in.number(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    stream.read_some();
  }
};

TEST(MessageStreamTest, MessagesArriveWholeHoweverTheyAreCut) {
  const std::string text("a\0b\nc 12:x", 10);
  for (std::size_t piece = 1; piece < 20; ++piece) {
    Ends ends;
    std::vector<std::string> texts;
    const std::string bytes = "11:L" + text + "1:A" + "11:L" + text;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      ends.say(bytes.substr(at, piece));
      while (const auto message = ends.stream.next(Where::current()))
        texts.push_back(static_cast<char>(message->kind) + message->text);
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"L" + text, "A", "L" + text}));
  }
}

TEST(MessageStreamTest, WhatIsNoMessageIsSaid) {
  for (const char* bytes : {"Welcome\nto h2", "12;", "-1:A", "0:", "99999999999999999999:", ":A"}) {
    Ends ends;
    ends.say(bytes);
    expect_throws<Error>([&] { ends.stream.next(Where::current()); },
                         "must speak in messages; got \"");
  }
}

TEST(MessageStreamTest, NobodyWaitsForAReader) {
  Ends ends;
  const std::string text(300'000, 'x');  // more than a pipe holds
  ends.stream.send(Message::line, text);
  EXPECT_GT(ends.stream.num_unsent(), 0u);
  std::string received;
  while (received.size() < text.size() + 8) {
    char buffer[5000];
    const ssize_t count = read(ends.from.out.number(), buffer, sizeof buffer);
    ASSERT_GT(count, 0);
    received.append(buffer, static_cast<std::size_t>(count));
    ends.stream.write_some();
  }
  EXPECT_EQ(received, "300001:L" + text);
}

TEST(MessageStreamTest, AReaderThatIsGoneIsNoError) {
  std::signal(SIGPIPE, SIG_IGN);
  Ends ends;
  ends.from.out.reset();
  ends.stream.send(Message::alive, "");
  ends.stream.send(Message::alive, "");
  EXPECT_EQ(ends.stream.num_unsent(), 0u);
  ends.to.in.reset();
  ends.stream.read_some();
  EXPECT_FALSE(ends.stream.is_open());
}

TEST(AgentJobTest, ArrivesAsItWasSent) {
  const AgentJob job{.program = {"./train", "", "a\nb", "--x=\xff"},
                     .variables = {"A=", "B=c d"},
                     .folder = "/tmp/a b",
                     .first_rank = 3,
                     .num_ranks = 2,
                     .pin = true,
                     .patience = std::chrono::seconds(10)};
  EXPECT_EQ(AgentJob::parse(job.text(), Where::current()), job);
  expect_throws<Error>([] { AgentJob::parse("", Where::current()); },
                       "a job must have a program and ranks");
}

}  // namespace
}  // namespace ringrad
