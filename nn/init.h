// Initialisers: draw a parameter's first values. All write in place, unrecorded. They throw as the
// functions of core/random/random.h do, except that they accept a leaf that requires a gradient.
//
// fan_in counts the inputs that are summed into one output; fan_out counts the outputs that one
// input reaches. For a weight (N, K, R, S), fan_in = K * R * S and fan_out = N * R * S.

#pragma once

#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad::nn {

/// Which side of a layer an initialiser counts: its inputs or its outputs.
enum class Fan { in, out };

struct Fans {
  std::int64_t in, out;
};

/// Throws ShapeError for fewer than two axes.
Fans fans_of(const Shape& weight, Where where = Where::current());

/// U(-bound, bound) with bound = gain * sqrt(3 / fan); gain sqrt(2 / (1 + slope^2)) suits a leaky
/// ReLU of that slope. Layers use slope = sqrt(5), which gives bound = 1 / sqrt(fan_in), as
/// PyTorch's layers do.
/// Paper: He, Zhang, Ren, Sun 2015, arXiv:1502.01852
void kaiming_uniform_(const Tensor& weight, double slope = 0, Fan fan = Fan::in,
                      Generator& generator = default_generator(), Where where = Where::current());

/// N(0, gain^2 / fan), with gain as for kaiming_uniform_.
void kaiming_normal_(const Tensor& weight, double slope = 0, Fan fan = Fan::in,
                     Generator& generator = default_generator(), Where where = Where::current());

/// U(-bound, bound) with bound = gain * sqrt(6 / (fan_in + fan_out)).
/// Paper: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural
///        networks"
void xavier_uniform_(const Tensor& weight, double gain = 1,
                     Generator& generator = default_generator(), Where where = Where::current());

/// N(0, gain^2 * 2 / (fan_in + fan_out)).
void xavier_normal_(const Tensor& weight, double gain = 1,
                    Generator& generator = default_generator(), Where where = Where::current());

}  // namespace ringrad::nn
