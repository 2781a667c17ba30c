#include "ringrad/data/text/byte_alphabet.h"

#include "ringrad/data/text/unicode_class.h"

namespace ringrad {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t kFirstOther = 0x100;

struct Alphabet {
  Alphabet() {
    std::size_t next = 0;
    for (const bool itself : {true, false})
      for (int byte = 0; byte < 256; ++byte)
        if (stands_for_itself(byte) == itself) order[next++] = static_cast<unsigned char>(byte);
    char32_t other = kFirstOther;
    for (const unsigned char byte : order) {
      character[byte] = stands_for_itself(byte) ? byte : other++;
      byte_of[character[byte]] = byte;
    }
  }
  std::array<unsigned char, 256> order{};
  std::array<char32_t, 256> character{};
  std::array<int, kFirstOther + 68> byte_of = filled();  // by character; -1 for none

  static std::array<int, kFirstOther + 68> filled() {
    std::array<int, kFirstOther + 68> none{};
    none.fill(-1);
    return none;
  }
};

const Alphabet& alphabet() {
  static const Alphabet result;
  return result;
}

}  // namespace

const std::array<unsigned char, 256>& byte_order() { return alphabet().order; }

std::string bytes_to_characters(std::string_view bytes) {
  std::string characters;
  for (const char c : bytes)
    append_utf8(characters, alphabet().character[static_cast<unsigned char>(c)]);
  return characters;
}

std::optional<std::string> characters_to_bytes(std::string_view characters) {
  std::string bytes;
  for (std::size_t at = 0; at < characters.size();) {
    const auto [character, num_bytes] = decode_utf8(characters, at);
    const auto& byte_of = alphabet().byte_of;
    if (character >= byte_of.size() || byte_of[character] < 0) return {};
    bytes += static_cast<char>(byte_of[character]);
    at += num_bytes;
  }
  return bytes;
}

}  // namespace ringrad
