// collate(): samples stacked into a batch.

#pragma once

#include <span>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/data/dataset.h"

namespace ringrad {

/// The tensors of one sample, without the axis that counts samples: input first, target last.
using Sample = std::vector<Tensor>;

/// Tensor i of the batch is the stack of all samples' tensors i, along a new first axis.
///
/// Shapes:  equal for equal i
/// DTypes:  all, equal for equal i
/// Throws:  ValueError without samples, without tensors, or for different numbers of them;
///          ShapeError, DTypeError; DeviceError unless all are on a CPU
Batch collate(std::span<const Sample> samples, Where where = Where::current());

}  // namespace ringrad
