#include "ringrad/core/untrusted/quoted_bytes.h"

#include <array>
#include <cstdio>

namespace ringrad {
namespace {

void append_escaped(std::string& result, char c, bool in_quotes) {
  switch (c) {
    case '\n':
      result += "\\n";
      return;
    case '\r':
      result += "\\r";
      return;
    case '\t':
      result += "\\t";
      return;
    case '"':
    case '\\':
      if (in_quotes) result += '\\';
      result += c;
      return;
  }
  if (c >= ' ' && c <= '~') {
    result += c;
    return;
  }
  std::array<char, 5> digits{};
  std::snprintf(digits.data(), digits.size(), "\\x%02x", static_cast<unsigned char>(c));
  result += digits.data();
}

std::string escaped(std::string_view text, std::size_t most_bytes, bool in_quotes) {
  std::string result;
  for (const char c : text.substr(0, most_bytes)) append_escaped(result, c, in_quotes);
  return result;
}

std::string rest(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return {};
  return " and " + std::to_string(text.size() - most_bytes) + " more bytes";
}

}  // namespace

std::string escaped_bytes(std::string_view text, std::size_t most_bytes) {
  return escaped(text, most_bytes, false) + rest(text, most_bytes);
}

std::string quoted_bytes(std::string_view text, std::size_t most_bytes) {
  return '"' + escaped(text, most_bytes, true) + '"' + rest(text, most_bytes);
}

}  // namespace ringrad
