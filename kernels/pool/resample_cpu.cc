// A row of the result is made in two steps, whose loops run along whole rows:
//
//     x row low  ---.
//                    +--- blended row (W C) ---> pairs of its columns ---> y row (Q C)
//     x row high ---'
//
// The gradient takes the same steps: the rows of grad_y that an input row adds to are summed, and
// then the columns of that sum.

#include "ringrad/kernels/pool/resample_cpu.h"

#include <algorithm>
#include <vector>

#include "ringrad/core/dtype.h"
#include "ringrad/core/simd.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using Places = std::vector<ResampleAxis::Place>;

Places places_of(const ResampleAxis& axis) {
  Places places;
  for (std::int64_t o = 0; o < axis.outputs; ++o) places.push_back(axis.place(o));
  return places;
}

// A piece should move 20,000 elements.
std::int64_t rows_per_piece(const ResampleGeometry& g) {
  return 1 + 20'000 / ((g.columns.inputs + g.columns.outputs) * g.C);
}

// row = x, or (1 - weight) x + weight next
template <class T, class Math>
RINGRAD_CLONES void blend(const T* x, const T* next, Math weight, std::int64_t n, Math* row) {
  if (weight == 0)
    for (std::int64_t i = 0; i < n; ++i) row[i] = static_cast<Math>(x[i]);
  else
    for (std::int64_t i = 0; i < n; ++i)
      row[i] = (1 - weight) * static_cast<Math>(x[i]) + weight * static_cast<Math>(next[i]);
}

// y[q, c] = (1 - weight) row[low, c] + weight row[high, c]
template <class T, class Math>
RINGRAD_CLONES void pick_columns(const Math* row, const Places& columns, std::int64_t C, T* y) {
  for (const auto& [low, high, exact_weight] : columns) {
    const Math *a = row + low * C, *b = row + high * C;
    const auto weight = static_cast<Math>(exact_weight);
    if (weight == 0)
      for (std::int64_t c = 0; c < C; ++c) y[c] = T(a[c]);
    else
      for (std::int64_t c = 0; c < C; ++c) y[c] = T((1 - weight) * a[c] + weight * b[c]);
    y += C;
  }
}

// sum += weight x
template <class T, class Math>
RINGRAD_CLONES void add_row(const T* x, Math weight, std::int64_t n, Math* sum) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<Math>(x[i]);
}

template <class T>
void resample_rows(const ResampleGeometry& g, const T* x, T* y) {
  using Math = MathType<T>;
  const Places rows = places_of(g.rows), columns = places_of(g.columns);
  const std::int64_t width = g.columns.inputs * g.C, P = g.rows.outputs;
  parallel_for(g.images * P, rows_per_piece(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Math> row(static_cast<std::size_t>(width));
    for (std::int64_t k = begin; k < end; ++k) {
      const auto& [low, high, weight] = rows[static_cast<std::size_t>(k % P)];
      const T* image = x + k / P * g.rows.inputs * width;
      blend(image + low * width, image + high * width, static_cast<Math>(weight), width,
            row.data());
      pick_columns(row.data(), columns, g.C, y + k * g.columns.outputs * g.C);
    }
  });
}

template <class T>
void sum_rows(const ResampleGeometry& g, const T* grad_y, T* grad_x) {
  using Math = MathType<T>;
  const Places rows = places_of(g.rows), columns = places_of(g.columns);
  const std::int64_t width = g.columns.outputs * g.C, H = g.rows.inputs, W = g.columns.inputs;
  parallel_for(g.images * H, rows_per_piece(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Math> row(static_cast<std::size_t>(width)), sum(static_cast<std::size_t>(g.C));
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t h = k % H;
      const T* image = grad_y + k / H * g.rows.outputs * width;
      std::fill(row.begin(), row.end(), Math{0});
      for (std::int64_t p = g.rows.first_output(h); p < g.rows.end_output(h); ++p)
        if (const double weight = rows[static_cast<std::size_t>(p)].weight_of(h); weight != 0)
          add_row(image + p * width, static_cast<Math>(weight), width, row.data());
      for (std::int64_t w = 0; w < W; ++w) {
        std::fill(sum.begin(), sum.end(), Math{0});
        for (std::int64_t q = g.columns.first_output(w); q < g.columns.end_output(w); ++q)
          if (const double weight = columns[static_cast<std::size_t>(q)].weight_of(w); weight != 0)
            add_row(row.data() + q * g.C, static_cast<Math>(weight), g.C, sum.data());
        std::transform(sum.begin(), sum.end(), grad_x + (k * W + w) * g.C,
                       [](Math value) { return T(value); });
      }
    }
  });
}

}  // namespace

void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where) {
  dispatch_floating(x.dtype(),
                    [&]<class T>() { resample_rows(g, x.data<const T>(), y.data<T>()); });
}

void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where) {
  dispatch_floating(grad_y.dtype(),
                    [&]<class T>() { sum_rows(g, grad_y.data<const T>(), grad_x.data<T>()); });
}

}  // namespace ringrad::kernels::cpu
