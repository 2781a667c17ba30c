// quoted_bytes(): untrusted bytes in an error message.
//
// A message goes to a terminal, and a damaged file may hold escape sequences that move its cursor,
// rename its window or hide the rest of the message. Printable ASCII stays as it is; every other
// byte becomes an escape:
//
//     quoted_bytes("fc.weight")        "fc.weight"
//     quoted_bytes("a\n\x1b[2J\xff")   "a\n\x1b[2J\xff"            one line, of visible characters
//     quoted_bytes(a million times x)  "xxxx..." and 999900 more bytes

// Not named quoted(): for a std::string, argument-dependent lookup would find std::quoted, which
// escapes only quotes.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringrad {

/// The number of bytes of the text that a message shows.
constexpr std::size_t kMostQuotedBytes = 100;

/// The text's first bytes between double quotes, escaped as in a C string literal, and the number
/// of bytes left out.
std::string quoted_bytes(std::string_view text, std::size_t most_bytes = kMostQuotedBytes);

/// The same without the outer quotes, for a whole message: quotes and backslashes stay, since they
/// may already be part of escapes.
std::string escaped_bytes(std::string_view text, std::size_t most_bytes = kMostQuotedBytes);

}  // namespace ringrad
