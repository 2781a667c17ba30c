#include "ringrad/parallel/comm/job/line_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using Taken = std::vector<std::pair<std::string, bool>>;  // text, and whether the line is complete

// What is taken of these writes, each of which is read before the next.
Taken take_of(const std::vector<std::string>& writes) {
  Pipe pipe = make_pipe(Where::current());
  LineReader reader(std::move(pipe.out));
  Taken taken;
  const auto take = [&](const std::string& text, bool is_complete) {
    taken.emplace_back(text, is_complete);
  };
  for (const std::string& bytes : writes) {
    EXPECT_EQ(write(pipe.in.number(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    reader.read_some(take);
  }
  pipe.in.reset();
  while (reader.is_open()) reader.read_some(take);
  return taken;
}

TEST(LineReaderTest, LinesAreTakenWholeHoweverTheyAreCut) {
  const Taken expected = {
      {"first", true}, {"", true}, {std::string("a\0b", 3), true}, {"end", true}};
  const std::string bytes("first\n\na\0b\nend", 14);
  EXPECT_EQ(take_of({bytes}), expected);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut)
    EXPECT_EQ(take_of({bytes.substr(0, cut), bytes.substr(cut)}), expected) << cut;
}

TEST(LineReaderTest, ProgressIsTakenWhenItIsWritten) {
  EXPECT_EQ(take_of({"10 %\r", "20 %\r", "done\n"}),
            (Taken{{"10 %", false}, {"20 %", false}, {"done", true}}));
  EXPECT_EQ(take_of({"\r10 %", "\r20 %", "\rdone\n"}),
            (Taken{{"10 %", false}, {"20 %", false}, {"done", true}}));
  EXPECT_EQ(take_of({"1\r2\r\r3\r"}),
            (Taken{{"1", false}, {"2", false}, {"3", false}, {"3", true}}));
  EXPECT_EQ(take_of({"\r1", "0 %"}), (Taken{{"1", false}, {"10 %", false}, {"10 %", true}}));
  EXPECT_EQ(take_of({"\r\r"}), Taken());
}

TEST(LineReaderTest, ALongLineAfterAReturnIsTakenOnce) {
  constexpr std::size_t kNumBlocks = 64;
  std::vector<std::string> writes(kNumBlocks, std::string(16 << 10, 'x'));
  writes.insert(writes.begin(), "\r10 %");
  std::size_t num_taken = 0;
  for (const auto& [text, is_complete] : take_of(writes)) num_taken += text.size();
  EXPECT_EQ(num_taken, 4 + 4 + kNumBlocks * (16 << 10));  // "10 %", and then the whole line
  const std::string longest(kLongestProgress, 'x');
  EXPECT_EQ(take_of({'\r' + longest, "x\n"}), (Taken{{longest, false}, {longest + 'x', true}}));
}

TEST(LineReaderTest, AReturnBeforeANewLineBelongsToTheLine) {
  EXPECT_EQ(take_of({"a\r\nb\r\n\r\n"}), (Taken{{"a\r", true}, {"b\r", true}, {"\r", true}}));
  EXPECT_EQ(take_of({"a\r", "\n"}), (Taken{{"a", false}, {"a\r", true}}));
}

}  // namespace
}  // namespace ringrad
