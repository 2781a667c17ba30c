#include <cmath>
#include <utility>

#include "ringrad/core/simd.h"
#include "ringrad/data/transform.h"

namespace ringrad {
namespace {

class Normalize {
 public:
  Normalize(std::vector<float> mean, std::vector<float> deviation)
      : mean_(std::move(mean)), deviation_(std::move(deviation)) {}

  Tensor operator()(const Tensor& x, const SampleKeys&, Where where) const {
    RINGRAD_CHECK(x.dims() >= 2 && x.is_contiguous(), ShapeError, where,
                  "normalize: the batch must be (B, C, ...) and contiguous; got shape ", x.shape(),
                  " and strides ", x.strides());
    check_cpu("normalize", x.device(), where);
    const std::int64_t channels = x.shape()[1];
    RINGRAD_CHECK(mean_.size() == 1 || std::ssize(mean_) == channels, ShapeError, where,
                  "normalize: there must be one mean, or one per channel; got ", mean_.size(),
                  " means and a batch of shape ", x.shape());
    const Tensor y = empty(x.shape(), {.dtype = DType::float32, .device = x.device()}, where);
    if (x.dtype() == DType::uint8)
      scale_planes<std::uint8_t>(x, y);
    else if (x.dtype() == DType::float32)
      scale_planes<float>(x, y);
    else
      throw DTypeError(concat("normalize: needs uint8 or float32; got ", x.dtype()), where);
    return y;
  }

 private:
  template <class T>
  void scale_planes(const Tensor& x, const Tensor& y) const {
    if (x.numel() == 0) return;
    const std::int64_t channels = x.shape()[1], planes = x.shape()[0] * channels;
    const std::int64_t plane = x.numel() / planes;
    const T* from = x.data<T>();
    float* to = y.data<float>();
    for (std::int64_t i = 0; i < planes; ++i, from += plane, to += plane) {
      const std::size_t c = mean_.size() == 1 ? 0 : static_cast<std::size_t>(i % channels);
      scale_plane(from, to, plane, mean_[c], deviation_[c]);
    }
  }

  // y = (x / 255 - mean) / deviation = scale x + shift
  RINGRAD_CLONES static void scale_plane(const std::uint8_t* from, float* to, std::int64_t count,
                                         float mean, float deviation) {
    const auto scale = static_cast<float>(1.0 / 255 / deviation);
    const auto shift = static_cast<float>(-double{mean} / deviation);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
  }

  // Not scale x + shift, whose terms cancel where the mean is large beside the deviation.
  RINGRAD_CLONES static void scale_plane(const float* from, float* to, std::int64_t count,
                                         float mean, float deviation) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = (from[i] - mean) / deviation;
  }

  std::vector<float> mean_, deviation_;
};

}  // namespace

Transform normalize(std::vector<float> mean, std::vector<float> deviation, Where where) {
  RINGRAD_CHECK(!mean.empty() && mean.size() == deviation.size(), ValueError, where,
                "normalize: there must be as many means as deviations, and at least one; got ",
                mean.size(), " and ", deviation.size());
  for (std::size_t c = 0; c < mean.size(); ++c)
    RINGRAD_CHECK(std::isfinite(mean[c]) && std::isfinite(deviation[c]) && deviation[c] > 0,
                  ValueError, where,
                  "normalize: means must be finite and deviations positive and finite; got mean ",
                  mean[c], " and deviation ", deviation[c], " for channel ", c);
  return Normalize(std::move(mean), std::move(deviation));
}

}  // namespace ringrad
