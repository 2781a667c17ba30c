// How a loss combines the losses of its examples or elements.

#pragma once

#include <cstdint>

namespace ringrad {

enum class Reduction : std::uint8_t {
  none,  ///< keeps them separate
  mean,  ///< their mean; for classes with weights, the weighted mean
  sum,
};

}  // namespace ringrad
