// The definition of convolution as loops, with one channel axis innermost so that it vectorises.
//
// Filters are first rearranged to (group, tap, from, to), with the innermost loop's channels last:
//
//     forward          from = inputs of the group    to = outputs     y  += x  * filter[.., c, :]
//     input gradient   from = outputs                to = inputs      dx += dy * filter[.., k, :]
//     weight gradient  from = inputs                 to = outputs     df[.., c, :] += x * dy

#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/convolution/convolution_kernels.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu::direct {
namespace {

/// The place of an element of a filter in the rearranged filter.
struct TurnedFilter {
  const ConvolutionGeometry& g;
  bool outputs_last;

  std::int64_t size() const { return g.options.groups * g.taps() * from() * to(); }
  std::int64_t from() const { return outputs_last ? g.group_inputs() : g.group_outputs(); }
  std::int64_t to() const { return outputs_last ? g.group_outputs() : g.group_inputs(); }
  std::int64_t tap(std::int64_t group, std::int64_t number) const {
    return (group * g.taps() + number) * from() * to();
  }

  /// Calls visit(place in (K, C / G, taps), place in the rearranged filter).
  template <class Visit>
  void for_each(Visit visit) const {
    std::int64_t place = 0;
    for (std::int64_t k = 0; k < g.K; ++k)
      for (std::int64_t c = 0; c < g.group_inputs(); ++c)
        for (std::int64_t number = 0; number < g.taps(); ++number) {
          const std::int64_t group = k / g.group_outputs(), k_in_group = k % g.group_outputs();
          visit(place++, tap(group, number) +
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

/// Calls visit(number of the tap, pixel of x) for the taps of output pixel `zpq` that lie inside x.
template <class Visit>
void for_each_tap(const ConvolutionGeometry& g, std::int64_t zpq, Visit visit) {
  const auto& [rank, stride, padding, dilation, groups] = g.options;
  const std::int64_t front = zpq / (g.P * g.Q) * stride[0] - padding[0];
  const std::int64_t top = zpq / g.Q % g.P * stride[1] - padding[1];
  const std::int64_t left = zpq % g.Q * stride[2] - padding[2];
  std::int64_t number = 0;
  for (std::int64_t u = 0; u < g.U; ++u)
    for (std::int64_t r = 0; r < g.R; ++r)
      for (std::int64_t s = 0; s < g.S; ++s, ++number) {
        const std::int64_t d = front + u * dilation[0], h = top + r * dilation[1];
        const std::int64_t w = left + s * dilation[2];
        if (d >= 0 && d < g.D && h >= 0 && h < g.H && w >= 0 && w < g.W)
          visit(number, (d * g.H + h) * g.W + w);
      }
}

}  // namespace

template <class T>
void convolution(const ConvolutionGeometry& g, const T* x, const T* weight, const T* bias, T* y) {
  const TurnedFilter layout{g, true};
  const std::vector<T> filter = turn(layout, weight);
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  parallel_for(g.B * g.Z * g.P, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin * g.Q; place < end * g.Q; ++place) {
      const T* image = x + place / g.pixels_of_y() * g.pixels_of_x() * g.C;
      T* pixel = y + place * g.K;
      bias ? std::copy_n(bias, g.K, pixel) : std::fill_n(pixel, g.K, T{0});
      for_each_tap(g, place % g.pixels_of_y(), [&](std::int64_t tap, std::int64_t from) {
        for (std::int64_t c = 0; c < g.C; ++c)
          add_scaled(outputs, image[from * g.C + c],
                     &filter[layout.tap(c / inputs, tap) + c % inputs * outputs],
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
      T* image = grad_x + b * g.pixels_of_x() * g.C;
      std::fill_n(image, g.pixels_of_x() * g.C, T{0});
      for (std::int64_t zpq = 0; zpq < g.pixels_of_y(); ++zpq) {
        const T* pixel = grad_y + (b * g.pixels_of_y() + zpq) * g.K;
        for_each_tap(g, zpq, [&](std::int64_t tap, std::int64_t to) {
          for (std::int64_t k = 0; k < g.K; ++k)
            add_scaled(inputs, pixel[k],
                       &filter[layout.tap(k / outputs, tap) + k % outputs * inputs],
                       image + to * g.C + k / outputs * inputs);
        });
      }
    }
  });
}

template <class T>
void convolution_backward_weight(const ConvolutionGeometry& g, const T* x, const T* grad_y,
                                 T* grad_weight) {
  const TurnedFilter layout{g, true};
  std::vector<T> filter(static_cast<std::size_t>(layout.size()), T{0});
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  // A piece owns input channels, so that no two pieces add to the same number.
  parallel_for(g.C, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = 0; place < g.B * g.pixels_of_y(); ++place) {
      const T* image = x + place / g.pixels_of_y() * g.pixels_of_x() * g.C;
      for_each_tap(g, place % g.pixels_of_y(), [&](std::int64_t tap, std::int64_t from) {
        for (std::int64_t c = begin; c < end; ++c)
          add_scaled(outputs, image[from * g.C + c], grad_y + place * g.K + c / inputs * outputs,
                     &filter[layout.tap(c / inputs, tap) + c % inputs * outputs]);
      });
    }
  });
  layout.for_each([&](std::int64_t to, std::int64_t from) {
    grad_weight[to] = filter[static_cast<std::size_t>(from)];
  });
}

#define RINGRAD_INSTANTIATE(T)                                                                  \
  template void convolution(const ConvolutionGeometry&, const T*, const T*, const T*, T*);      \
  template void convolution_backward_input(const ConvolutionGeometry&, const T*, const T*, T*); \
  template void convolution_backward_weight(const ConvolutionGeometry&, const T*, const T*, T*);
RINGRAD_INSTANTIATE(float)
RINGRAD_INSTANTIATE(double)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cpu::direct
