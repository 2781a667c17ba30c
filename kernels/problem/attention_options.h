// Which keys a query may attend to, and how its scores become probabilities.
//
//     causal, upper_left          causal, lower_right         window 2, causal, upper_left
//       key 0 1 2 3 4               key 0 1 2 3 4               key 0 1 2 3 4
//     q 0   x . . . .             q 0   x x x . .             q 0   x . . . .
//       1   x x . . .               1   x x x x .               1   x x . . .
//       2   x x x . .               2   x x x x x               2   . x x . .

#pragma once

#include <cstdint>
#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The position of query t among the keys, for T queries and S keys. Both are equal if T = S.
enum class CausalAlignment : std::uint8_t {
  upper_left,   ///< t: queries and keys begin together
  lower_right,  ///< t + S - T: queries and keys end together, as in generation with kept keys
};

struct AttentionOptions {
  /// Broadcasts to (B, H, T, S). bool: true where a query may attend to a key. Floating: added to
  /// the scaled scores.
  Tensor mask = {};
  bool causal = false;  ///< a query attends to no key after its position
  CausalAlignment alignment = CausalAlignment::upper_left;  ///< of causal and window
  double dropout = 0;  ///< probability to drop a probability; the others are divided by 1 - dropout
  std::optional<double> scale = {};  ///< factor of the scores; default 1 / sqrt(D)
  std::int64_t window = 0;  ///< a query attends to keys less than this far away; 0: no limit
};

}  // namespace ringrad
