// The classes of Unicode characters by which text is split into words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringrad {

/// General categories L and N; the property White_Space; all others, such as punctuation.
enum class UnicodeClass : std::uint8_t { letter, number, space, other };

UnicodeClass unicode_class(char32_t character);

struct DecodedCharacter {
  char32_t character;
  std::size_t num_bytes;
};

/// The character that begins at text[at]. A byte that begins none in UTF-8 is a character of its
/// own, U+FFFD.
/// REQUIRES: at < text.size()
DecodedCharacter decode_utf8(std::string_view text, std::size_t at);

/// Appends a character in UTF-8.
/// REQUIRES: character < 0x110000
void append_utf8(std::string& text, char32_t character);

}  // namespace ringrad
