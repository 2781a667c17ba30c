// TensorDataset: samples that are all in memory, as rows of tensors.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"
#include "ringrad/data/dataset.h"

namespace ringrad {

/// Sample i is the i-th element along the first axis of every tensor. Copies share the tensors,
/// which must not change while they are read.
class TensorDataset final : public Dataset {
 public:
  /// Shapes: (N, ...) each, with one N
  /// Throws: ValueError without tensors, ShapeError unless the first extents are equal, DeviceError
  ///         unless all are on a CPU
  explicit TensorDataset(std::vector<Tensor> tensors, Where where = Where::current());

  std::int64_t size() const override { return tensors_.front().shape()[0]; }

  /// Each tensor (B, ...), contiguous, with the dtype and the device of its source.
  Batch fetch(std::span<const std::int64_t> indices, Where where = Where::current()) const override;

  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace ringrad
