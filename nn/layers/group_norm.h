// GroupNorm and InstanceNorm2d: normalization within each example.

#pragma once

#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Parameters:  weight (channels) of ones, bias (channels) of zeros; none unless affine
/// Shapes:      (B, channels, ...), like the input
/// Throws:      ValueError unless groups divides channels, and eps is finite and not negative
class GroupNorm : public Module {
 public:
  explicit GroupNorm(std::int64_t groups, std::int64_t channels, double eps = 1e-5,
                     bool affine = true, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight, bias;  ///< undefined unless affine

 private:
  std::int64_t groups_, channels_;
  double eps_;
};

/// Parameters:  none, or if affine weight (channels) of ones and bias (channels) of zeros
/// Shapes:      (B, channels, H, W), like the input
/// Throws:      ValueError unless channels > 0, and eps is finite and not negative
class InstanceNorm2d : public Module {
 public:
  explicit InstanceNorm2d(std::int64_t channels, double eps = 1e-5, bool affine = false,
                          Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight, bias;  ///< undefined unless affine

 private:
  std::int64_t channels_;
  double eps_;
};

}  // namespace ringrad::nn
