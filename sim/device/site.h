// Site: a line of the program, for messages.

#pragma once

#include <string>

namespace ringrad::sim {

struct Site {
  const char* file = "";
  int line = 0;

  /// As a default argument: the line of the call.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Site&) const = default;
};

/// "softmax.cu:41"
std::string to_string(const Site& site);

}  // namespace ringrad::sim
