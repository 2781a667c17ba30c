// Upsample: interpolation of images as a layer.

#pragma once

#include "ringrad/autograd/convolution/interpolate.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The options of an Upsample.
struct UpsampleOptions {
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< of bilinear: pixels are points, and those in corners stay there
};

/// Enlarges an image `scale` times along both axes: (B, C, H, W)  ->  (B, C, H scale, W scale).
/// Throws ValueError unless scale > 0.
class Upsample : public Module {
 public:
  explicit Upsample(double scale, const UpsampleOptions& options = {},
                    Where where = Where::current());
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  double scale_;
  UpsampleOptions options_;
};

}  // namespace ringrad::nn
