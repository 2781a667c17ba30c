// The CPU's passes of batch normalization over rows of channels. Private to batch_norm.cc.

#pragma once

#include <cstdint>
#include <vector>

namespace ringrad::kernels::cpu {

/// n = rows * channels elements whose channels are neighbours, walked in stripes of whole rows:
///
///     channel   0 1 2 0 1 2 0 1 2 ..        a stripe is about 256 elements wide, so that
///               |--- stripe ----|           16 channels vectorise as well as 1024
///
/// What belongs to a channel is repeated along the stripe. Stripes come in chunks that fit into the
/// first two levels of cache; chunks are the unit of parallel work and of summation.
struct Stripes {
  Stripes(std::int64_t rows, std::int64_t channels);

  std::int64_t channels, size;  // size: of x, in elements
  std::int64_t width;           // of a stripe
  std::int64_t chunk, chunks;   // elements per chunk (the last may have fewer), and their number
};

/// A value per channel, repeated along a stripe.
template <class T>
std::vector<T> repeat(const Stripes& stripes, const std::vector<T>& values);

/// What one channel does to its values: y = (x - mean) * scale + bias, then y + residual, then max(y, 0) if
/// relu. A residual is null where there is none.
template <class T>
struct ChannelMap {
  std::vector<T> mean, scale, bias;  // repeated
  bool relu;
};

/// mean and var (channels), var divided by the number of rows.
template <class T>
void batch_norm_moments(const Stripes& stripes, const T* x, T* mean, T* var);

template <class T>
void batch_norm_apply(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                      const T* residual, T* y);

/// With g = grad_y, zeroed where ReLU was:  sums of g and of g * (x - mean), each (channels). Without ReLU
/// the residual makes no difference to a gradient, and must be null.
template <class T>
void batch_norm_backward_sums(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                              const T* residual, const T* grad_y, T* sum_g, T* sum_gx);

/// grad_x = scale * g + slope * (x - mean) + constant, slope and constant repeated; and, with a residual,
/// grad_residual = g. Without slope and constant, both empty, grad_x = scale * g: an infinite x does not
/// matter then.
template <class T>
void batch_norm_backward_apply(const Stripes& stripes, const ChannelMap<T>& map,
                               const std::vector<T>& slope, const std::vector<T>& constant,
                               const T* x, const T* residual, const T* grad_y, T* grad_x,
                               T* grad_residual);

}  // namespace ringrad::kernels::cpu
