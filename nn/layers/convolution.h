// Conv2d: a layer of filters over images.

#pragma once

#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The options of a Conv2d; each number applies to both axes.
struct Conv2dOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Parameters:  weight (out_channels, in_channels / groups, kernel, kernel), bias (out_channels),
///              both from U(-1/sqrt(fan_in), 1/sqrt(fan_in))
/// Shapes:      (B, in_channels, H, W)  ->  (B, out_channels, P, Q)
/// Throws:      ValueError unless the counts are positive and groups divides both channel counts
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current());
  /// `kernel` replaces that of the options: Conv2d(3, 64, 7, {.stride = 2}).
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv2d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 private:
  Conv2dOptions options_;
};

}  // namespace ringrad::nn
