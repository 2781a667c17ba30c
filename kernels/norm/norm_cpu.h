// The loops behind row_norm.h, group_norm.h and batch_norm.h. Private to kernels/norm.

#pragma once

#include <cstdint>
#include <vector>

namespace ringrad::kernels::cpu {

/// kCentred: layer norm; else RMS norm, in which mean and bias are null. weight and bias: C values
/// each, or null. mean and rstd: one value per row.
template <bool kCentred, class T>
void row_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight, const T* bias,
              T* y, T* mean, T* rstd);

/// grad_weight and grad_bias: C values each; RMS norm has no grad_bias.
template <bool kCentred, class T>
void row_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                       const T* mean, const T* rstd, const T* grad_y, T* grad_x, T* grad_weight,
                       T* grad_bias);

/// x is (B, G, K, S) with K channels per group.
struct Groups {
  std::int64_t B, G, K, S;
};

/// weight and bias: G * K values each, or null. mean and rstd: one value per example and group.
template <class T>
void group_norm(const Groups& groups, T eps, const T* x, const T* weight, const T* bias, T* y,
                T* mean, T* rstd);

/// grad_weight and grad_bias: G * K values each.
template <class T>
void group_norm_backward(const Groups& groups, const T* x, const T* weight, const T* mean,
                         const T* rstd, const T* grad_y, T* grad_x, T* grad_weight, T* grad_bias);

/// n = rows * channels elements with the channels innermost, processed in stripes of whole rows:
///
///     channel   0 1 2 0 1 2 0 1 2 ..        a stripe is about 256 elements wide, so that
///               |--- stripe ----|           16 channels vectorise as well as 1024
///
/// Per-channel values are repeated along the stripe. Stripes are grouped into chunks that fit into
/// the first two levels of cache. A chunk is the unit of parallel work and of summation.
struct Stripes {
  Stripes(std::int64_t rows, std::int64_t channels);

  std::int64_t channels, size;  // size: of x, in elements
  std::int64_t width;           // elements per stripe
  std::int64_t chunk, chunks;   // elements per chunk (the last may have fewer), and their number
};

/// A value per channel, repeated along a stripe.
template <class T>
std::vector<T> repeat(const Stripes& stripes, const std::vector<T>& values);

/// The map of one channel: y = (x - mean) * scale + bias, then y + residual, then max(y, 0) if
/// relu. The residual pointer is null if there is none.
template <class T>
struct ChannelMap {
  std::vector<T> mean, scale, bias;  // repeated along a stripe
  bool relu;
};

/// mean and var (channels), var divided by the number of rows.
template <class T>
void batch_norm_moments(const Stripes& stripes, const T* x, T* mean, T* var);

template <class T>
void batch_norm_apply(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                      const T* residual, T* y);

/// With g = grad_y, zeroed where ReLU was 0: the sums of g and of g * (x - mean), each (channels).
/// Without ReLU the residual does not affect the gradients, and must be null.
template <class T>
void batch_norm_backward_sums(const Stripes& stripes, const ChannelMap<T>& map, const T* x,
                              const T* residual, const T* grad_y, T* sum_g, T* sum_gx);

/// grad_x = scale * g + slope * (x - mean) + constant, where slope and constant are repeated along
/// a stripe. With a residual, also grad_residual = g. If slope and constant are empty, then
/// grad_x = scale * g, which an infinite x does not affect.
template <class T>
void batch_norm_backward_apply(const Stripes& stripes, const ChannelMap<T>& map,
                               const std::vector<T>& slope, const std::vector<T>& constant,
                               const T* x, const T* residual, const T* grad_y, T* grad_x,
                               T* grad_residual);

}  // namespace ringrad::kernels::cpu
