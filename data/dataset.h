// Dataset: numbered samples, fetched a batch at a time.
//
//     indices {7, 2, 5}  --fetch-->  Batch { input (3, 1, 28, 28), target (3,) }
//
// The unit is a whole batch, not a sample, so that a batch is written once, straight into the
// memory that the model reads. The sampler (sampler.h) decides which indices make a batch; the
// loader (loader.h) calls fetch.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// Some samples: tensors whose first axis counts them. The first tensor is the model's input, the
/// last one its target.
struct Batch {
  std::vector<Tensor> tensors;

  const Tensor& input() const { return tensors.front(); }
  const Tensor& target() const { return tensors.back(); }
  /// The number of samples.
  std::int64_t size() const { return input().shape()[0]; }
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of samples.
  virtual std::int64_t size() const = 0;

  /// The samples of these indices, in this order, in new tensors. An index may occur several times.
  /// Several threads may call this at once.
  /// Throws:  IndexError for an index outside [0, size())
  virtual Batch fetch(std::span<const std::int64_t> indices,
                      Where where = Where::current()) const = 0;
};

}  // namespace ringrad
