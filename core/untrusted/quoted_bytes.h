// quoted_bytes(): foreign bytes in an error message.
//
// A message goes to a terminal, and a damaged file may hold escape sequences that move its cursor, rename its window or
// hide the rest of the message. Printable ASCII stays as it is, all else becomes an escape:
//
//     quoted_bytes("fc.weight")        "fc.weight"
//     quoted_bytes("a\n\x1b[2J\xff")   "a\n\x1b[2J\xff"            one line, of visible characters
//     quoted_bytes(a million times x)  "xxxx..." and 999900 more bytes

// Not named quoted(): argument-dependent lookup would find std::quoted for a std::string, which escapes quotes alone.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringrad {

/// How many bytes of the text a message shows.
constexpr std::size_t kMostQuotedBytes = 100;

/// The text's first bytes between double quotes, as a C string literal has them, and how many are left out.
std::string quoted_bytes(std::string_view text, std::size_t most_bytes = kMostQuotedBytes);

/// The same without quotes, for a whole message: quotes and backslashes, which others may have put there, stay.
std::string escaped_bytes(std::string_view text, std::size_t most_bytes = kMostQuotedBytes);

}  // namespace ringrad
