// The definition of convolution as loops, with one channel axis innermost so that it vectorises.
//
// Filters are first rearranged to (group, R, S, from, to), with the innermost loop's channels last:
//
//     forward          from = inputs of the group    to = outputs     y  += x  * filter[.., c, :]
//     input gradient   from = outputs                to = inputs      dx += dy * filter[.., k, :]
//     weight gradient  from = inputs                 to = outputs     df[.., c, :] += x * dy

#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/convolution/convolution_cpu.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu::direct {
namespace {

/// The place of element (k, c, r, s) of a filter in the rearranged filter.
struct TurnedFilter {
  const ConvolutionGeometry& g;
  bool outputs_last;

  std::int64_t size() const { return g.options.groups * g.R * g.S * from() * to(); }
  std::int64_t from() const { return outputs_last ? g.group_inputs() : g.group_outputs(); }
  std::int64_t to() const { return outputs_last ? g.group_outputs() : g.group_inputs(); }
  std::int64_t tap(std::int64_t group, std::int64_t r, std::int64_t s) const {
    return ((group * g.R + r) * g.S + s) * from() * to();
  }

  /// Calls visit(place in (K, C / G, R, S), place in the rearranged filter).
  template <class Visit>
  void for_each(Visit visit) const {
    std::int64_t place = 0;
    for (std::int64_t k = 0; k < g.K; ++k)
      for (std::int64_t c = 0; c < g.group_inputs(); ++c)
        for (std::int64_t r = 0; r < g.R; ++r)
          for (std::int64_t s = 0; s < g.S; ++s) {
            const std::int64_t group = k / g.group_outputs(), k_in_group = k % g.group_outputs();
            visit(place++, tap(group, r, s) +
                               (outputs_last ? c * to() + k_in_group : k_in_group * to() + c));
          }
  }
};

template <class T>
std::vector<T> turn(const TurnedFilter& layout, const T* weight) {
  std::vector<T> turned(static_cast<std::size_t>(layout.size()));
  layout.for_each([&](std::int64_t from, std::int64_t to) {
    turned[static_cast<std::size_t>(to)] = weight[from];
  });
  return turned;
}

template <class T>
RINGRAD_CLONES void add_scaled(std::int64_t n, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// Calls visit(r, s, pixel of x) for the taps of output (p, q) that lie inside x.
template <class Visit>
void for_each_tap(const ConvolutionGeometry& g, std::int64_t p, std::int64_t q, Visit visit) {
  const auto& [stride, padding, dilation, groups] = g.options;
  for (std::int64_t r = 0; r < g.R; ++r)
    for (std::int64_t s = 0; s < g.S; ++s) {
      const std::int64_t h = p * stride[0] + r * dilation[0] - padding[0];
      const std::int64_t w = q * stride[1] + s * dilation[1] - padding[1];
      if (h >= 0 && h < g.H && w >= 0 && w < g.W) visit(r, s, h * g.W + w);
    }
}

}  // namespace

template <class T>
void convolution(const ConvolutionGeometry& g, const T* x, const T* weight, const T* bias, T* y) {
  const TurnedFilter layout{g, true};
  const std::vector<T> filter = turn(layout, weight);
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  parallel_for(g.B * g.P, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t q = 0; q < g.Q; ++q) {
        const T* image = x + row / g.P * g.H * g.W * g.C;
        T* pixel = y + (row * g.Q + q) * g.K;
        bias ? std::copy_n(bias, g.K, pixel) : std::fill_n(pixel, g.K, T{0});
        for_each_tap(g, row % g.P, q, [&](std::int64_t r, std::int64_t s, std::int64_t hw) {
          for (std::int64_t c = 0; c < g.C; ++c)
            add_scaled(outputs, image[hw * g.C + c],
                       &filter[layout.tap(c / inputs, r, s) + c % inputs * outputs],
                       pixel + c / inputs * outputs);
        });
      }
  });
}

template <class T>
void convolution_backward_input(const ConvolutionGeometry& g, const T* grad_y, const T* weight,
                                T* grad_x) {
  const TurnedFilter layout{g, false};
  const std::vector<T> filter = turn(layout, weight);
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  parallel_for(g.B, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      T* image = grad_x + b * g.H * g.W * g.C;
      std::fill_n(image, g.H * g.W * g.C, T{0});
      for (std::int64_t pq = 0; pq < g.P * g.Q; ++pq) {
        const T* pixel = grad_y + (b * g.P * g.Q + pq) * g.K;
        for_each_tap(g, pq / g.Q, pq % g.Q, [&](std::int64_t r, std::int64_t s, std::int64_t hw) {
          for (std::int64_t k = 0; k < g.K; ++k)
            add_scaled(inputs, pixel[k],
                       &filter[layout.tap(k / outputs, r, s) + k % outputs * inputs],
                       image + hw * g.C + k / outputs * inputs);
        });
      }
    }
  });
}

template <class T>
void convolution_backward_weight(const ConvolutionGeometry& g, const T* x, const T* grad_y,
                                 T* grad_weight, T* grad_bias) {
  const TurnedFilter layout{g, true};
  std::vector<T> filter(static_cast<std::size_t>(layout.size()), T{0});
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  // A piece owns input channels, so that no two pieces add to the same number.
  parallel_for(g.C, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bpq = 0; bpq < g.B * g.P * g.Q; ++bpq) {
      const std::int64_t b = bpq / (g.P * g.Q), p = bpq / g.Q % g.P, q = bpq % g.Q;
      const T* image = x + b * g.H * g.W * g.C;
      for_each_tap(g, p, q, [&](std::int64_t r, std::int64_t s, std::int64_t hw) {
        for (std::int64_t c = begin; c < end; ++c)
          add_scaled(outputs, image[hw * g.C + c], grad_y + bpq * g.K + c / inputs * outputs,
                     &filter[layout.tap(c / inputs, r, s) + c % inputs * outputs]);
      });
    }
  });
  layout.for_each([&](std::int64_t to, std::int64_t from) {
    grad_weight[to] = filter[static_cast<std::size_t>(from)];
  });
  if (!grad_bias) return;
  std::fill_n(grad_bias, g.K, T{0});
  for (std::int64_t bpq = 0; bpq < g.B * g.P * g.Q; ++bpq)
    add_scaled(g.K, T{1}, grad_y + bpq * g.K, grad_bias);
}

#define RINGRAD_INSTANTIATE(T)                                                                  \
  template void convolution(const ConvolutionGeometry&, const T*, const T*, const T*, T*);      \
  template void convolution_backward_input(const ConvolutionGeometry&, const T*, const T*, T*); \
  template void convolution_backward_weight(const ConvolutionGeometry&, const T*, const T*, T*, T*);
RINGRAD_INSTANTIATE(float)
RINGRAD_INSTANTIATE(double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu::direct
