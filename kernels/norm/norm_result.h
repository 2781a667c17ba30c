// What a normalization of rows or of groups returns.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct NormResult {
  Tensor output;      ///< the shape of x; in group norm, also the memory order of x
  Tensor mean, rstd;  ///< one value per row or group
};

struct NormGradients {
  Tensor input;         ///< as the output
  Tensor weight, bias;  ///< the shape of the weight, in the dtype of mean and rstd
};

}  // namespace ringrad::kernels
