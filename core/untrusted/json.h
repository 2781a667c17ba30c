// JSON from untrusted sources: bounded in size and depth, without duplicate names.
//
// The parser itself may be iterative, but code that walks its result (for example to print it into
// an error message) recurses once per level. So a text that is nested too deeply is refused while
// it is read. An object with a duplicate name is refused because two readers could take different
// values for it.

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ringrad {

struct JsonLimits {
  int depth = 32;  ///< levels of nested lists and objects
  std::size_t bytes = std::size_t{16}
                      << 20;  ///< of the text; a parsed value takes up to about 30 times as many
};

/// The value that the text describes.
///
/// Throws:  std::invalid_argument "must ...; got ...", without raw bytes of the text, unless the
///          text is JSON within the limits and no object has a duplicate name
nlohmann::json parse_untrusted_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace ringrad
