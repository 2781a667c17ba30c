// What a loss makes of the losses of its examples or elements.

#pragma once

#include <cstdint>

namespace ringrad {

enum class Reduction : std::uint8_t {
  none,  ///< keeps them all
  mean,  ///< their mean; for classes with weights, the weighted mean
  sum,
};

}  // namespace ringrad
