// Random draws whose probabilities are elements of a tensor. core/random/random.h has the others.

#pragma once

#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// 1 with the probability that x's element states, else 0, like x and without history.
///
/// DTypes:  floats
/// Throws:  DTypeError; ValueError unless all probabilities are in [0, 1], for which the host waits
Tensor bernoulli(const Tensor& x, Generator& generator = default_generator(),
                 Where where = Where::current());

/// Positions drawn with probabilities that are proportional to the weights of a row; without
/// replacement, no position twice.
///
/// With replacement, a draw is the place of a uniform number among the running sums. Without, every
/// position draws a waiting time with the rate of its weight, and the first ones win.
///
/// Shapes:  weights (N) or (B, N)  ->  (num_samples) or (B, num_samples), int64 without history
/// DTypes:  floats
/// Throws:  ShapeError, DTypeError; ValueError unless all weights are finite and not negative and
///          each row has a positive one, or, without replacement, num_samples of them. The host
///          waits for the GPU.
Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement = false,
                   Generator& generator = default_generator(), Where where = Where::current());

}  // namespace ringrad
