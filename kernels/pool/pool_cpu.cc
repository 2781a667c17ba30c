#include <algorithm>
#include <type_traits>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/pool/pool_windows.h"
#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements per piece

/// Calls visit(place, offset of the pixel in its image) for the inputs of output (p, q).
template <class Visit>
inline void for_each_input(const PoolGeometry& g, std::int64_t p, std::int64_t q, Visit visit) {
  const std::int64_t top = g.rows.origin(p), h_end = g.rows.end(p);
  const std::int64_t left = g.columns.origin(q), w_end = g.columns.end(q);
  for (std::int64_t h = g.rows.begin(p); h < h_end; ++h)
    for (std::int64_t w = g.columns.begin(q); w < w_end; ++w)
      visit((h - top) * g.place_width + w - left, (h * g.W() + w) * g.C);
}

/// Calls body(image, p) for every row of outputs, in parallel.
template <class Body>
void for_each_output_row(const PoolGeometry& g, Body body) {
  const std::int64_t row_size = std::max<std::int64_t>(1, g.W() * g.C);
  parallel_for(g.images * g.P(), 1 + kGrain / row_size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row / g.P(), row % g.P());
  });
}

/// Calls body(image) for every image, in parallel; windows of one image may share inputs.
template <class Body>
void for_each_image(const PoolGeometry& g, Body body) {
  const std::int64_t image_size = std::max<std::int64_t>(1, g.H() * g.W() * g.C);
  parallel_for(g.images, 1 + kGrain / image_size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = begin; image < end; ++image) body(image);
  });
}

// Computes one row of outputs from two rows of W pixels.
template <class T, class Place>
RINGRAD_CLONES void max_of_two_by_two(std::int64_t W, std::int64_t C, const T* __restrict x,
                                      T* __restrict y, Place* __restrict places) {
  for (std::int64_t q = 0; q < W / 2; ++q) {
    const T* first = x + 2 * q * C;
    const T* second = first + W * C;
    for (std::int64_t c = 0; c < C; ++c) {
      T best = first[c];
      Place place = 0;
      const auto take = [&](T value, Place candidate) {
        const bool better = beats(value, best);
        best = better ? value : best;
        place = better ? candidate : place;
      };
      take(first[C + c], 1);
      take(second[c], 2);
      take(second[C + c], 3);
      y[q * C + c] = best;
      places[q * C + c] = place;
    }
  }
}

/// A vector of as many places as a Vector<T> has lanes, widened for comparisons of T's width.
/// Without it the compiler vectorises the gradient for the width of Place, 64 channels at a time,
/// and processes fewer channels one by one. That is half as fast for 16 and 32 channels.
template <class T, class Place>
struct Places {
  using Wide = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Wide wide __attribute__((vector_size(64)));
  typedef Place narrow __attribute__((vector_size(Vector<T>::kLanes * sizeof(Place)),
                                      aligned(alignof(Place)), may_alias));

  [[gnu::always_inline]] static inline void load(const Place* from, wide& to) {
    to = __builtin_convertvector(*reinterpret_cast<const narrow*>(from), wide);
  }
};

// The gradient of max_of_two_by_two: two rows of W pixels from one row of outputs.
template <class T, class Place>
RINGRAD_CLONES void spread_two_by_two(std::int64_t W, std::int64_t C, const T* grad,
                                      const Place* places, T* grad_x) {
  using Vec = Vector<T>;
  for (std::int64_t q = 0; q < W / 2; ++q) {
    T* first = grad_x + 2 * q * C;
    T* targets[] = {first, first + C, first + W * C, first + W * C + C};
    std::int64_t c = 0;
    for (; c + Vec::kLanes <= C; c += Vec::kLanes) {
      const typename Vec::type value = Vec::at(grad + q * C + c), zero = {};
      typename Places<T, Place>::wide winner;
      Places<T, Place>::load(places + q * C + c, winner);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) Vec::at(targets[k] + c) = winner == k ? value : zero;
    }
    for (; c < C; ++c)
      for (int k = 0; k < 4; ++k) targets[k][c] = places[q * C + c] == k ? grad[q * C + c] : T{0};
  }
}

template <class T, class Place>
RINGRAD_CLONES void max_of_window(const PoolGeometry& g, std::int64_t p, std::int64_t q,
                                  const T* image, T* __restrict y, Place* __restrict places) {
  bool first = true;
  for_each_input(g, p, q, [&](std::int64_t place, std::int64_t offset) {
    const T* __restrict x = image + offset;
    for (std::int64_t c = 0; c < g.C; ++c) {
      const bool better = first || beats(x[c], y[c]);
      y[c] = better ? x[c] : y[c];
      places[c] = better ? static_cast<Place>(place) : places[c];
    }
    first = false;
  });
}

template <class T, class Place>
RINGRAD_CLONES void add_to_winners(const PoolGeometry& g, std::int64_t p, std::int64_t q,
                                   const T* __restrict grad, const Place* __restrict places,
                                   T* image) {
  for_each_input(g, p, q, [&](std::int64_t place, std::int64_t offset) {
    T* __restrict x = image + offset;
    for (std::int64_t c = 0; c < g.C; ++c)
      x[c] += static_cast<std::int64_t>(places[c]) == place ? grad[c] : T{0};
  });
}

template <class T, class Place>
RINGRAD_CLONES void take_winners(const PoolGeometry& g, std::int64_t p, std::int64_t q,
                                 const T* image, const Place* __restrict places, T* __restrict y) {
  for_each_input(g, p, q, [&](std::int64_t place, std::int64_t offset) {
    const T* __restrict x = image + offset;
    for (std::int64_t c = 0; c < g.C; ++c)
      y[c] = static_cast<std::int64_t>(places[c]) == place ? x[c] : y[c];
  });
}

template <class T>
T mean_factor(const PoolGeometry& g, std::int64_t p, std::int64_t q) {
  return T{1} / static_cast<T>(g.rows.count(p) * g.columns.count(q));
}

template <class T>
RINGRAD_CLONES void mean_of_window(const PoolGeometry& g, std::int64_t p, std::int64_t q,
                                   const T* image, T* __restrict y) {
  std::fill_n(y, g.C, T{0});
  for_each_input(g, p, q, [&](std::int64_t, std::int64_t offset) {
    const T* __restrict x = image + offset;
    for (std::int64_t c = 0; c < g.C; ++c) y[c] += x[c];
  });
  const T factor = mean_factor<T>(g, p, q);
  for (std::int64_t c = 0; c < g.C; ++c) y[c] *= factor;
}

template <class T>
RINGRAD_CLONES void add_to_window(const PoolGeometry& g, std::int64_t p, std::int64_t q,
                                  const T* __restrict grad, T* image) {
  const T factor = mean_factor<T>(g, p, q);
  for_each_input(g, p, q, [&](std::int64_t, std::int64_t offset) {
    T* __restrict x = image + offset;
    for (std::int64_t c = 0; c < g.C; ++c) x[c] += factor * grad[c];
  });
}

/// Calls body.operator()<T, Place>() with the types of values and places.
template <class Body>
void dispatch_max(const Tensor& values, const Tensor& places, Body body) {
  dispatch_math(values.dtype(), [&]<class T>() {
    places.dtype() == DType::uint8 ? body.template operator()<T, std::uint8_t>()
                                   : body.template operator()<T, std::int32_t>();
  });
}

}  // namespace

void max_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, const Tensor& places,
              Where) {
  const bool two_by_two = g.is_two_by_two();
  dispatch_max(x, places, [&]<class T, class Place>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    Place* winners = places.data<Place>();
    for_each_output_row(g, [&](std::int64_t image, std::int64_t p) {
      const T* in = from + image * g.H() * g.W() * g.C;
      const std::int64_t out = (image * g.P() + p) * g.Q() * g.C;
      if (two_by_two)
        return max_of_two_by_two(g.W(), g.C, in + 2 * p * g.W() * g.C, to + out, winners + out);
      for (std::int64_t q = 0; q < g.Q(); ++q)
        max_of_window(g, p, q, in, to + out + q * g.C, winners + out + q * g.C);
    });
  });
}

void max_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& places,
                       const Tensor& grad_x, Where) {
  dispatch_max(grad_y, places, [&]<class T, class Place>() {
    const T* grad = grad_y.data<T>();
    const Place* winners = places.data<Place>();
    T* to = grad_x.data<T>();
    if (g.is_two_by_two())
      return for_each_output_row(g, [&](std::int64_t image, std::int64_t p) {
        const std::int64_t out = (image * g.P() + p) * g.Q() * g.C;
        spread_two_by_two(g.W(), g.C, grad + out, winners + out,
                          to + (image * g.H() + 2 * p) * g.W() * g.C);
      });
    for_each_image(g, [&](std::int64_t image) {
      T* in = to + image * g.H() * g.W() * g.C;
      std::fill_n(in, g.H() * g.W() * g.C, T{0});
      std::int64_t out = image * g.P() * g.Q() * g.C;
      for (std::int64_t p = 0; p < g.P(); ++p)
        for (std::int64_t q = 0; q < g.Q(); ++q, out += g.C)
          add_to_winners(g, p, q, grad + out, winners + out, in);
    });
  });
}

void max_pool_gather(const PoolGeometry& g, const Tensor& x, const Tensor& places, const Tensor& y,
                     Where) {
  dispatch_max(x, places, [&]<class T, class Place>() {
    const T* from = x.data<T>();
    const Place* winners = places.data<Place>();
    T* to = y.data<T>();
    for_each_output_row(g, [&](std::int64_t image, std::int64_t p) {
      std::int64_t out = (image * g.P() + p) * g.Q() * g.C;
      for (std::int64_t q = 0; q < g.Q(); ++q, out += g.C)
        take_winners(g, p, q, from + image * g.H() * g.W() * g.C, winners + out, to + out);
    });
  });
}

void avg_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, Where) {
  dispatch_math(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_each_output_row(g, [&](std::int64_t image, std::int64_t p) {
      std::int64_t out = (image * g.P() + p) * g.Q() * g.C;
      for (std::int64_t q = 0; q < g.Q(); ++q, out += g.C)
        mean_of_window(g, p, q, from + image * g.H() * g.W() * g.C, to + out);
    });
  });
}

void avg_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& grad_x, Where) {
  dispatch_math(grad_y.dtype(), [&]<class T>() {
    const T* grad = grad_y.data<T>();
    T* to = grad_x.data<T>();
    for_each_image(g, [&](std::int64_t image) {
      T* in = to + image * g.H() * g.W() * g.C;
      std::fill_n(in, g.H() * g.W() * g.C, T{0});
      std::int64_t out = image * g.P() * g.Q() * g.C;
      for (std::int64_t p = 0; p < g.P(); ++p)
        for (std::int64_t q = 0; q < g.Q(); ++q, out += g.C) add_to_window(g, p, q, grad + out, in);
    });
  });
}

}  // namespace ringrad::kernels::cpu
