#include "ringrad/nn/optimizer/check_options.h"

#include <cmath>

namespace ringrad::nn {

// Each comparison is false for NaN.
void check_not_negative(const char* who, std::initializer_list<NumberOption> options, Where where) {
  for (const auto& [name, value] : options)
    RINGRAD_CHECK(std::isfinite(value) && value >= 0, ValueError, where, who, ": ", name,
                  " must be finite and not negative; got ", value);
}

void check_positive(const char* who, std::initializer_list<NumberOption> options, Where where) {
  for (const auto& [name, value] : options)
    RINGRAD_CHECK(std::isfinite(value) && value > 0, ValueError, where, who, ": ", name,
                  " must be finite and positive; got ", value);
}

void check_decay(const char* who, std::initializer_list<NumberOption> options, Where where) {
  for (const auto& [name, value] : options)
    RINGRAD_CHECK(value >= 0 && value < 1, ValueError, where, who, ": ", name,
                  " must be in [0, 1); got ", value);
}

}  // namespace ringrad::nn
