#include "ringrad/core/untrusted/json.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace ringrad {
namespace {

std::string refusal_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_untrusted_json(text, limits);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(UntrustedJsonTest, ReadsWhatIsWithinTheLimits) {
  EXPECT_EQ(parse_untrusted_json(R"({"a": [1, {"b": 2}], "b": null})").dump(),
            R"({"a":[1,{"b":2}],"b":null})");
  EXPECT_EQ(refusal_of(nested(5), {.depth = 5}), "none");
  EXPECT_EQ(refusal_of("[12]", {.bytes = 4}), "none");
}

TEST(UntrustedJsonTest, RefusesDeepNesting) {
  EXPECT_EQ(refusal_of(nested(6), {.depth = 5}), "must be nested at most 5 deep; got more");
  EXPECT_EQ(refusal_of(nested(100'000)), "must be nested at most 32 deep; got more");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(refusal_of(objects), "must be nested at most 32 deep; got more");
}

TEST(UntrustedJsonTest, RefusesLongTexts) {
  EXPECT_EQ(refusal_of("[123]", {.bytes = 4}), "must have at most 4 bytes; got 5");
}

TEST(UntrustedJsonTest, RefusesANameThatStandsTwice) {
  EXPECT_EQ(refusal_of(R"({"a": 1, "a": 2})"), R"(must have each name once; got "a" twice)");
  EXPECT_EQ(refusal_of(R"([{"b": {"\n": 1, "\n": 2}}])"),
            R"(must have each name once; got "\n" twice)");
  EXPECT_EQ(refusal_of(R"({"a": {"a": 1}, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]})"), "none");
}

TEST(UntrustedJsonTest, RefusesZeroBytesAndAByteOrderMark) {
  for (const std::string& text :
       {std::string("[1]\0[", 5), std::string("\0", 1), std::string("\xef\xbb\xbf[1]")})
    EXPECT_EQ(refusal_of(text), "must be JSON; got a zero byte or a byte order mark");
}

TEST(UntrustedJsonTest, ErrorsAreShortAndPrintable) {
  const std::string error = refusal_of("[\"" + std::string(1'000'000, 'x') + "\x1b[2J\xff\n");
  EXPECT_TRUE(error.starts_with("must be JSON; got ")) << error;
  EXPECT_LT(error.size(), 400u);
  for (const char c : error) EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
}

}  // namespace
}  // namespace ringrad
