// Pooling layers: the largest or the mean value of each window; (B, C, L) -> (B, C, T),
// (B, C, H, W) -> (B, C, P, Q), or (B, C, D, H, W) -> (B, C, Z, P, Q).

#pragma once

#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

template <std::size_t N>
struct PoolLayerOptions {
  PerAxis<N> stride = 0;  ///< 0 means the kernel's extent
  PerAxis<N> padding = 0;
};

/// Windows that slide along N axes: MaxPool2d(3, {.stride = 2}).
template <std::size_t N, bool kMax>
class SlidingPool : public Module {
 public:
  explicit SlidingPool(PerAxis<N> kernel, const PoolLayerOptions<N>& options = {});

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  PoolOptions<N> options_;
};
/// The largest value of each window of sequences.
using MaxPool1d = SlidingPool<1, true>;
/// The largest value of each window of images.
using MaxPool2d = SlidingPool<2, true>;
/// The largest value of each window of volumes.
using MaxPool3d = SlidingPool<3, true>;
/// The mean value of each window of sequences.
using AvgPool1d = SlidingPool<1, false>;
/// The mean value of each window of images.
using AvgPool2d = SlidingPool<2, false>;
/// The mean value of each window of volumes.
using AvgPool3d = SlidingPool<3, false>;

/// Pools an input of any size to an output of `output_size`.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(PerAxis<2> output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  PerAxis<2> output_size_;
};

}  // namespace ringrad::nn
