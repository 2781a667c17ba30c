// JSON from outside: bounded in size and depth, without duplicate names.
//
// A parser may be as iterative as it likes: what walks the result (printing it into an error message, for one) recurses
// once per level. So a text nested too deep is refused while it is read. A name that stands twice in an object is refused
// too: two readers could take different values for it.

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ringrad {

struct JsonLimits {
  int depth = 32;  ///< lists and objects inside each other
  std::size_t bytes = std::size_t{16}
                      << 20;  ///< of the text; a parsed value takes up to about 30 times as many
};

/// The value that the text describes.
///
/// Throws: std::invalid_argument "must ...; got ...", without raw bytes of the text, unless it is JSON within the limits
///         in which each object has each name once
nlohmann::json parse_untrusted_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace ringrad
