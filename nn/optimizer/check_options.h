// What the options of optimizers, schedules and scalers must fulfil: none may be NaN or infinite,
// which would only show in the parameters.

#pragma once

#include <initializer_list>

#include "ringrad/core/base/error.h"

namespace ringrad::nn {

struct NumberOption {
  const char* name;
  double value;
};

/// Throws ValueError, naming the option, unless each is finite and not negative.
void check_not_negative(const char* who, std::initializer_list<NumberOption> options, Where where);
/// Throws ValueError, naming the option, unless each is finite and positive.
void check_positive(const char* who, std::initializer_list<NumberOption> options, Where where);
/// Throws ValueError, naming the option, unless each is in [0, 1).
void check_decay(const char* who, std::initializer_list<NumberOption> options, Where where);

}  // namespace ringrad::nn
