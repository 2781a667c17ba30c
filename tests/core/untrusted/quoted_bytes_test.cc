#include "ringrad/core/untrusted/quoted_bytes.h"

#include <gtest/gtest.h>

namespace ringrad {
namespace {

TEST(QuotedBytesTest, PrintableTextStaysAsItIs) {
  EXPECT_EQ(quoted_bytes("fc.weight = 1 ~"), R"("fc.weight = 1 ~")");
  EXPECT_EQ(quoted_bytes(""), R"("")");
}

TEST(QuotedBytesTest, BytesThatATerminalWouldObeyAreEscaped) {
  EXPECT_EQ(quoted_bytes("a\n\r\t\x1b[2J"), R"("a\n\r\t\x1b[2J")");
  EXPECT_EQ(quoted_bytes(std::string_view("\0\x7f\x80\xff", 4)), R"("\x00\x7f\x80\xff")");
  EXPECT_EQ(quoted_bytes(R"(say "a\b")"), R"("say \"a\\b\"")");
}

TEST(QuotedBytesTest, EveryByteComesOutPrintable) {
  for (int byte = 0; byte < 256; ++byte)
    for (const char c : quoted_bytes(std::string(1, static_cast<char>(byte)))) {
      EXPECT_GE(c, ' ') << byte;
      EXPECT_LE(c, '~') << byte;
    }
}

TEST(QuotedBytesTest, AMessageKeepsTheQuotesOfItsParts) {
  EXPECT_EQ(escaped_bytes("got \"a\\n\"\n\x1b"), R"(got "a\n"\n\x1b)");
  EXPECT_EQ(escaped_bytes("abcdef", 2), "ab and 4 more bytes");
}

TEST(QuotedBytesTest, LongTextIsCut) {
  EXPECT_EQ(quoted_bytes(std::string(1'000'000, 'x')),
            '"' + std::string(100, 'x') + "\" and 999900 more bytes");
  EXPECT_EQ(quoted_bytes("abcdef", 6), R"("abcdef")");
  EXPECT_EQ(quoted_bytes("abcdef", 2), R"("ab" and 4 more bytes)");
}

}  // namespace
}  // namespace ringrad
