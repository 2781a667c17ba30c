// Pooling layers: the largest or the mean value of each window; (B, C, L) -> (B, C, T),
// (B, C, H, W) -> (B, C, P, Q), or (B, C, D, H, W) -> (B, C, Z, P, Q).

#pragma once

#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The options of pooling layers; each number applies to every axis.
struct Pool2dOptions {
  std::int64_t stride = 0;  ///< 0 means the kernel's extent
  std::int64_t padding = 0;
};

/// The common part of layers with sliding windows, which have `kernel` positions along every axis.
class SlidingPool : public Module {
 public:
  std::string describe() const override;

 protected:
  SlidingPool(const char* name, std::int64_t kernel, const Pool2dOptions& options)
      : name_(name),
        kernel_(kernel),
        stride_(options.stride ? options.stride : kernel),
        padding_(options.padding) {}

  /// The numbers as the options of an operator.
  template <class Options>
  Options options_of() const;

 private:
  const char* name_;
  std::int64_t kernel_, stride_, padding_;
};

class MaxPool1d : public SlidingPool {
 public:
  explicit MaxPool1d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("MaxPool1d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

class MaxPool2d : public SlidingPool {
 public:
  explicit MaxPool2d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("MaxPool2d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

class MaxPool3d : public SlidingPool {
 public:
  explicit MaxPool3d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("MaxPool3d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

class AvgPool1d : public SlidingPool {
 public:
  explicit AvgPool1d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("AvgPool1d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

class AvgPool2d : public SlidingPool {
 public:
  explicit AvgPool2d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("AvgPool2d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

class AvgPool3d : public SlidingPool {
 public:
  explicit AvgPool3d(std::int64_t kernel, const Pool2dOptions& options = {})
      : SlidingPool("AvgPool3d", kernel, options) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Pools an input of any size to output_size x output_size.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(std::int64_t output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  std::int64_t output_size_;
};

}  // namespace ringrad::nn
