// Generated data sets of points in the plane, for tests and examples that need no files.
//
//     blobs      o o      x x        one round cloud per class: a linear layer can separate them
//                 oo       xx
//     spirals    one arm per class around a common centre: only a curved boundary separates them
//
// Inputs (N, 2) of float32, targets (N,) of int64; sample i belongs to class i mod num_classes.

#pragma once

#include <cstdint>

#include "ringrad/core/base/error.h"
#include "ringrad/data/tensor_dataset.h"

namespace ringrad {

/// Normally distributed clouds of deviation `noise` around points spread evenly on the unit circle.
/// Throws:  ValueError unless num_samples >= 0, num_classes >= 1 and noise >= 0
TensorDataset blobs(std::int64_t num_samples, std::int64_t num_classes = 2, double noise = 0.1,
                    std::uint64_t seed = 0, Where where = Where::current());

/// Arms that start at the centre and make `turns` full turns up to radius 1, with normal noise.
/// Throws:  ValueError as blobs
TensorDataset spirals(std::int64_t num_samples, std::int64_t num_classes = 2, double noise = 0.02,
                      std::uint64_t seed = 0, double turns = 0.75, Where where = Where::current());

}  // namespace ringrad
