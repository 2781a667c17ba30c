// A row of the result is made in two steps, whose loops run along whole rows:
//
//     x row low  ---.
//                    +--- blended row (W C) ---> pairs of its columns ---> y row (Q C)
//     x row high ---'
//
// The gradient takes the same steps: the rows of grad_y that an input row adds to are summed, and
// then the columns of that sum.

#include <algorithm>
#include <vector>

#include "ringrad/core/dtype.h"
#include "ringrad/core/simd.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/pool/resample_axis.h"

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

// The places of all columns, apart, so that a loop over them has no branches.
template <class Math>
struct Columns {
  std::vector<std::int64_t> low, high;
  std::vector<Math> weight;
  bool weighted = false;  // any weight is not 0

  explicit Columns(const Places& places) {
    for (const auto& place : places) {
      low.push_back(place.low);
      high.push_back(place.high);
      weight.push_back(static_cast<Math>(place.weight));
      weighted |= place.weight != 0;
    }
  }
};

// y[q] = row[low], or (1 - weight) row[low] + weight row[high]
template <class T, class Math>
RINGRAD_CLONES void pick_columns(const Math* row, const Columns<Math>& columns, T* y) {
  const std::int64_t *low = columns.low.data(), *high = columns.high.data();
  const Math* weight = columns.weight.data();
  const auto n = static_cast<std::int64_t>(columns.low.size());
  if (!columns.weighted)
    for (std::int64_t q = 0; q < n; ++q) y[q] = T(row[low[q]]);
  else
    for (std::int64_t q = 0; q < n; ++q) {
      const Math a = row[low[q]], b = row[high[q]], w = weight[q];
      y[q] = T(w == 0 ? a : (1 - w) * a + w * b);  // 0 times infinity is no part of the mean
    }
}

// The same for C channels of each column.
template <class T, class Math>
RINGRAD_CLONES void pick_pixels(const Math* row, const Columns<Math>& columns, std::int64_t C,
                                T* y) {
  for (std::size_t q = 0; q < columns.low.size(); ++q, y += C) {
    const Math *a = row + columns.low[q] * C, *b = row + columns.high[q] * C;
    const Math weight = columns.weight[q];
    if (weight == 0)
      for (std::int64_t c = 0; c < C; ++c) y[c] = T(a[c]);
    else
      for (std::int64_t c = 0; c < C; ++c) y[c] = T((1 - weight) * a[c] + weight * b[c]);
  }
}

// The inverse: the outputs that each input adds to, input after input.
template <class Math>
struct Terms {
  std::vector<std::int64_t> begin{0};  // input i has terms [begin[i], begin[i + 1])
  std::vector<std::int64_t> output;
  std::vector<Math> weight;

  explicit Terms(const ResampleAxis& axis) {
    for (std::int64_t i = 0; i < axis.inputs; ++i) {
      for (std::int64_t o = axis.first_output(i); o < axis.end_output(i); ++o)
        if (const double part = axis.place(o).weight_of(i); part != 0) {
          output.push_back(o);
          weight.push_back(static_cast<Math>(part));
        }
      begin.push_back(static_cast<std::int64_t>(output.size()));
    }
  }

  // Calls visit(output, weight) for each term of input i.
  template <class Visit>
  void for_each(std::int64_t i, Visit visit) const {
    const auto end = static_cast<std::size_t>(begin[static_cast<std::size_t>(i + 1)]);
    for (auto k = static_cast<std::size_t>(begin[static_cast<std::size_t>(i)]); k < end; ++k)
      visit(output[k], weight[k]);
  }
};

// sum += weight x, in float64: an input may have any number of outputs
template <class T>
RINGRAD_CLONES void add_row(const T* x, double weight, std::int64_t n, double* sum) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<MathType<T>>(x[i]);
}

template <class T>
void resample_rows(const ResampleGeometry& g, const T* x, T* y) {
  using Math = MathType<T>;
  const Places rows = places_of(g.rows);
  const Columns<Math> columns(places_of(g.columns));
  const std::int64_t width = g.columns.inputs * g.C, P = g.rows.outputs;
  parallel_for(g.images * P, rows_per_piece(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Math> row(static_cast<std::size_t>(width));
    for (std::int64_t k = begin; k < end; ++k) {
      const auto& [low, high, weight] = rows[static_cast<std::size_t>(k % P)];
      const T* image = x + k / P * g.rows.inputs * width;
      blend(image + low * width, image + high * width, static_cast<Math>(weight), width,
            row.data());
      T* const to = y + k * g.columns.outputs * g.C;
      g.C == 1 ? pick_columns(row.data(), columns, to) : pick_pixels(row.data(), columns, g.C, to);
    }
  });
}

template <class T>
void sum_rows(const ResampleGeometry& g, const T* grad_y, T* grad_x) {
  const Terms<double> rows(g.rows), columns(g.columns);
  const std::int64_t width = g.columns.outputs * g.C, H = g.rows.inputs, W = g.columns.inputs;
  parallel_for(g.images * H, rows_per_piece(g), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> row(static_cast<std::size_t>(width)), sum(static_cast<std::size_t>(g.C));
    for (std::int64_t k = begin; k < end; ++k) {
      const T* image = grad_y + k / H * g.rows.outputs * width;
      std::fill(row.begin(), row.end(), 0.);
      rows.for_each(k % H, [&](std::int64_t p, double weight) {
        add_row(image + p * width, weight, width, row.data());
      });
      T* to = grad_x + k * W * g.C;
      for (std::int64_t w = 0; w < W; ++w, to += g.C) {
        if (g.C == 1) {
          double total = 0;
          columns.for_each(w, [&](std::int64_t q, double weight) {
            total += weight * row[static_cast<std::size_t>(q)];
          });
          *to = T(static_cast<MathType<T>>(total));
          continue;
        }
        std::fill(sum.begin(), sum.end(), 0.);
        columns.for_each(w, [&](std::int64_t q, double weight) {
          add_row(row.data() + q * g.C, weight, g.C, sum.data());
        });
        std::transform(sum.begin(), sum.end(), to,
                       [](double value) { return T(static_cast<MathType<T>>(value)); });
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
