#include "ringrad/nn/layers/upsample.h"

namespace ringrad::nn {

Upsample::Upsample(double scale, const UpsampleOptions& options, Where where)
    : scale_(scale), options_(options) {
  RINGRAD_CHECK(scale > 0, ValueError, where, "Upsample: the scale must be positive; got ", scale);
}

Tensor Upsample::forward(const Tensor& x, Where at) {
  return interpolate(
      x,
      {.scale = {scale_, scale_}, .mode = options_.mode, .align_corners = options_.align_corners},
      at);
}

std::string Upsample::describe() const {
  const char* mode = options_.mode == Interpolation::nearest ? "nearest" : "bilinear";
  return concat("Upsample(scale ", scale_, ", ", mode,
                options_.align_corners ? ", align_corners)" : ")");
}

}  // namespace ringrad::nn
