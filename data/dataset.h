// Dataset: numbered samples, fetched a batch at a time.
//
//     indices {7, 2, 5}  --fetch-->  Batch { input (3, 1, 28, 28), target (3,) }
//
// Whole batches, and not samples, are the unit, so that a batch is written once, straight into the
// memory the model reads. Which indices make a batch is the sampler's affair (sampler.h), who
// calls fetch is the loader's (loader.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"

namespace ringrad {

/// Some samples: tensors whose first axis counts them. The first tensor is what a model is given,
/// the last one what it should answer.
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

  /// The samples of these indices, in this order, in new tensors. An index may come several times.
  /// Called from several threads at once.
  /// Throws: IndexError for an index outside of [0, size())
  virtual Batch fetch(std::span<const std::int64_t> indices,
                      Where where = Where::current()) const = 0;
};

}  // namespace ringrad
