#include "ringrad/parallel/comm/job/message_stream.h"

#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/job/agent.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

// A stream whose other ends are in the test's hands.
struct Ends {
  Pipe to = make_pipe(Where::current()), from = make_pipe(Where::current());
  MessageStream stream{std::move(to.out), std::move(from.in), kLongestFromAgent};

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
  std::string_view bytes = "\033[2J\a welcome";
  expect_throws<Error>([&] { take_message(bytes, 100, Where::current()); },
                       "got \"?[2J? welcome\"");
}

TEST(MessageStreamTest, AMessageThatIsTooLongIsRefusedBeforeItArrives) {
  Ends ends;
  ends.stream.set_longest(64);
  ends.say("64:H" + std::string(63, 'x'));
  EXPECT_TRUE(ends.stream.next(Where::current()));
  ends.say("65:H");
  expect_throws<Error>([&] { ends.stream.next(Where::current()); },
                       "a message must have at most 64 bytes here; got one of 65");
}

// Any bytes give messages or an Error, and messages hold exactly those bytes.
TEST(MessageStreamTest, AnyBytesAreMessagesOrAnError) {
  std::mt19937 random(1);
  const std::string alphabet = "0123456789:AEL \n\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto size = random() % 12; size > 0; --size) bytes += alphabet[random() % alphabet.size()];
    std::string_view left = bytes;
    try {
      while (const auto message = take_message(left, 9, Where::current())) {
        EXPECT_LE(message->text.size(), 8u);
        EXPECT_EQ(left, std::string_view(bytes).substr(bytes.size() - left.size()));
      }
      EXPECT_LE(left.size(), 10u);  // a message that is not complete
    } catch (const Error&) {
    }
  }
}

TEST(MessageStreamTest, MessagesAboutRanksAreReadExactly) {
  EXPECT_EQ(parse_rank_message("3 1 a b"), (RankMessage{3, 1, "a b"}));
  EXPECT_EQ(parse_rank_message("3 1 "), (RankMessage{3, 1, ""}));
  EXPECT_EQ(parse_rank_message("0 256"), (RankMessage{0, 256, ""}));
  EXPECT_EQ(parse_rank_message("3 -1", -1), (RankMessage{3, -1, ""}));
  EXPECT_EQ(parse_rank_message("3 -2", -1), std::nullopt);
  for (const char* text : {"", "3", "3 ", " 3 1", "3  1", "-1 2", "3 -1", "3 1x", "a 1",
                           "99999999999 1", "3 99999999999"})
    EXPECT_EQ(parse_rank_message(text), std::nullopt) << text;
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
}

TEST(AgentJobTest, AnythingElseIsRefused) {
  const std::string good = AgentJob{.program = {"./train"}, .variables = {"A=b"}}.text();
  const auto refuses = [](const std::string& text) {
    expect_throws<Error>([&] { AgentJob::parse(text, Where::current()); },
                         "a job must be as its launcher wrote it");
  };
  for (std::size_t size = 0; size < good.size(); ++size) refuses(good.substr(0, size));
  using namespace std::string_literals;
  refuses("0\0001\0000\0000\000\0000\0"s);                     // no program
  refuses("0\0000\0000\0000\000\0000\000ls\0"s);               // no ranks
  refuses("-1\0001\0000\0000\000\0000\000ls\0"s);              // a rank below 0
  refuses("0\0001\0002\0000\000\0000\000ls\0"s);               // neither pinned nor not
  refuses("0\0001\0000\00099999999999999\000\0000\000ls\0"s);  // patience beyond a day
  refuses("0\0001\0000\0000\000\000999999999999\000ls\0"s);    // more variables than bytes
  refuses("0x1\0001\0000\0000\000\0000\000ls\0"s);
}

TEST(AgentJobTest, ArrivesInEveryLocale) {
  const AgentJob job{.program = {"./train"}, .patience = std::chrono::seconds(10)};
  const testing::ForeignNumbers guard;
  EXPECT_EQ(AgentJob::parse(job.text(), Where::current()), job);
}

}  // namespace
}  // namespace ringrad
