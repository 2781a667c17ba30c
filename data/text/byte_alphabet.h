// How GPT-2's files write bytes: as characters that can be seen.
//
//     byte    ! ... ~    ¡ ... ¬    ® ... ÿ    all others, in order
//     as      itself     itself     itself     U+0100, U+0101, ...      a space is Ġ (U+0120)

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace ringrad {

/// All bytes in the order of their numbers in GPT-2's vocabulary: those that stand for themselves,
/// then the others.
const std::array<unsigned char, 256>& byte_order();

/// The characters, in UTF-8, that stand for these bytes.
std::string bytes_to_characters(std::string_view bytes);

/// The bytes for which these characters stand; nothing if one stands for no byte.
std::optional<std::string> characters_to_bytes(std::string_view characters);

}  // namespace ringrad
