// Generated data sets of points in the plane, for tests and examples that shall need no files.
//
//     blobs      o o      x x        one round cloud per class: a linear layer can tell them apart
//                 oo       xx
//     spirals    one arm per class around a common centre: only a curved boundary can
//
// Inputs (N, 2) of float32, targets (N,) of int64; sample i belongs to class i mod num_classes.

#pragma once

#include <cstdint>

#include "core/error.h"
#include "data/tensor_dataset.h"

namespace ringrad {

/// Normal clouds of deviation `noise` around points that are spread evenly on the unit circle.
/// Throws: ValueError unless num_samples >= 0, num_classes >= 1 and noise >= 0
TensorDataset blobs(std::int64_t num_samples, std::int64_t num_classes = 2, double noise = 0.1,
                    std::uint64_t seed = 0, Where where = Where::current());

/// Arms that leave the centre and make `turns` of a full turn until radius 1, with normal noise.
/// Throws: ValueError as blobs
TensorDataset spirals(std::int64_t num_samples, std::int64_t num_classes = 2, double noise = 0.02,
                      std::uint64_t seed = 0, double turns = 0.75, Where where = Where::current());

}  // namespace ringrad
