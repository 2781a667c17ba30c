// Max pooling on a GPU, as a ladder.
//
//     max_of_window<0, 1>        one output per thread, one input after the other
//     max_of_window<side, 1>     side x side windows: the compiler unrolls the loops; all inputs
//                                of a window are in flight at once
//     max_of_window<side, V>     16 bytes of channels per thread: the window's position is computed
//                                once for all of them
//     max_two_by_two             the same for single-channel images that 2x2 windows tile: 16 bytes
//                                of two rows per thread
//
// The gradient uses sum_of_wins<1, 1>, <V, 1>, <1, V> and spread_two_by_two.

#include "ringrad/kernels/pool/pool_cuda.cuh"
#include "ringrad/kernels/pool/pool_windows.h"

namespace ringrad::kernels::cuda {
namespace {

// One group of outputs of one window position per thread. Bound: bandwidth.
//
// With kSide the window is not cut off at the image's border; instead, its outside places are moved
// to the nearest pixel. That pixel is then seen twice, in the same order, which changes no maximum.
// REQUIRES: kSide is 0 or the extent of all windows
template <int kSide, int kChannels, class T, class Place, class Int>
__global__ void max_of_window(Pool<Int> pool, const T* x, T* y, Place* places) {
  for_each_group(pool, [&](const typename Pool<Int>::Group& at) {
    const auto& [image, p, q, group] = at;
    const Int top = pool.rows.origin(p), left = pool.columns.origin(q);
    const Int h0 = pool.rows.begin(p), w0 = pool.columns.begin(q);
    const Int width = kSide > 0 ? kSide : pool.place_width;
    MathType<T> best[kChannels];
    Int place[kChannels];
    for (int k = 0; k < kChannels; ++k) {
      best[k] = -std::numeric_limits<MathType<T>>::infinity();
      place[k] = (h0 - top) * width + w0 - left;
    }
    const Int rows = kSide > 0 ? kSide : pool.rows.end(p) - h0;
    const Int columns = kSide > 0 ? kSide : pool.columns.end(q) - w0;
#pragma unroll
    for (Int r = 0; r < rows; ++r) {
#pragma unroll
      for (Int s = 0; s < columns; ++s) {
        const Int h = kSide > 0 ? std::clamp<Int>(top + r, 0, pool.rows.extent - 1) : h0 + r;
        const Int w = kSide > 0 ? std::clamp<Int>(left + s, 0, pool.columns.extent - 1) : w0 + s;
        const auto values = load_pack<kChannels>(x + pool.input(image, h, w) + group * kChannels);
        for (int k = 0; k < kChannels; ++k) {
          const MathType<T> value = values.values[k];
          const bool better = beats(value, best[k]);
          best[k] = better ? value : best[k];
          place[k] = better ? (h - top) * width + w - left : place[k];
        }
      }
    }
    Pack<T, kChannels> out;
    Pack<Place, kChannels> out_places;
    for (int k = 0; k < kChannels; ++k) {
      out.values[k] = T(best[k]);
      out_places.values[k] = static_cast<Place>(place[k]);
    }
    const Int to = pool.output(image, p, q) + group * kChannels;
    store_pack(y + to, out);
    store_pack(places + to, out_places);
  });
}

// One group of inputs per thread. The thread adds the gradients of the outputs that the group won,
// in row-major order, so nothing is written twice. Bound: bandwidth; an output is read once from
// memory, and from a cache by the other inputs of its window.
template <int kPixels, int kChannels, class T, class Place, class Int>
__global__ void sum_of_wins(Pool<Int> pool, const T* grad_y, const Place* places, T* grad_x) {
  for_each_group(pool, [&](const typename Pool<Int>::Group& at) {
    const Int h = at.row, w0 = at.column * kPixels, c = at.channel * kChannels;
    const Int p_begin = pool.rows.first_output(h), p_end = pool.rows.end_output(h);
    Pack<T, kPixels * kChannels> out;
#pragma unroll
    for (int j = 0; j < kPixels; ++j) {
      const Int w = w0 + j;
      const Int q_begin = pool.columns.first_output(w), q_end = pool.columns.end_output(w);
      MathType<T> sum[kChannels] = {};
      for (Int p = p_begin; p < p_end; ++p) {
        for (Int q = q_begin; q < q_end; ++q) {
          const Int place =
              (h - pool.rows.origin(p)) * pool.place_width + w - pool.columns.origin(q);
          const Int from = pool.output(at.image, p, q) + c;
          const auto winners = load_pack<kChannels>(places + from);
          const auto grads = load_pack<kChannels>(grad_y + from);
          for (int k = 0; k < kChannels; ++k)
            if (static_cast<Int>(winners.values[k]) == place) sum[k] += grads.values[k];
        }
      }
      for (int k = 0; k < kChannels; ++k) out.values[j * kChannels + k] = T(sum[k]);
    }
    store_pack(grad_x + pool.input(at.image, h, w0) + c, out);
  });
}

// Inputs of two rows per thread, V of each, and so V / 2 outputs. The output rows of all images are
// consecutive, and each takes two rows of inputs. G groups make a row:
//
//     output group i, in row i / G  <->  input groups i + i / G * G and, below it,
//                                        i + (i / G + 1) * G
//
// REQUIRES: 2x2 windows tile the images; V divides their width; C is 1
template <int V>
struct TwoRows {
  std::int64_t groups;
  Divisor<std::int32_t> G;

  __device__ std::int64_t above(std::int64_t i) const {
    return (i + static_cast<std::int32_t>(i) / G * G) * V;
  }
  __device__ std::int64_t below(std::int64_t i) const { return above(i) + std::int64_t{G} * V; }
};

// Bound: bandwidth.
template <int V, class T>
__global__ void max_two_by_two(TwoRows<V> rows, const T* x, T* y, std::uint8_t* places) {
  for (const std::int64_t i : own_elements(rows.groups)) {
    const auto above = load_pack<V>(x + rows.above(i)), below = load_pack<V>(x + rows.below(i));
    Pack<T, V / 2> out;
    Pack<std::uint8_t, V / 2> out_places;
    for (int k = 0; k < V / 2; ++k) {
      const MathType<T> window[] = {above.values[2 * k], above.values[2 * k + 1],
                                    below.values[2 * k], below.values[2 * k + 1]};
      MathType<T> best = window[0];
      int place = 0;
      for (int j = 1; j < 4; ++j) {
        const bool better = beats(window[j], best);
        best = better ? window[j] : best;
        place = better ? j : place;
      }
      out.values[k] = T(best);
      out_places.values[k] = static_cast<std::uint8_t>(place);
    }
    store_pack(y + i * (V / 2), out);
    store_pack(places + i * (V / 2), out_places);
  }
}

// Bound: bandwidth.
template <int V, class T>
__global__ void spread_two_by_two(TwoRows<V> rows, const T* grad_y, const std::uint8_t* places,
                                  T* grad_x) {
  for (const std::int64_t i : own_elements(rows.groups)) {
    const auto grads = load_pack<V / 2>(grad_y + i * (V / 2));
    const auto winners = load_pack<V / 2>(places + i * (V / 2));
    Pack<T, V> above, below;
    for (int k = 0; k < V; ++k) {
      above.values[k] = winners.values[k / 2] == k % 2 ? grads.values[k / 2] : T();
      below.values[k] = winners.values[k / 2] == 2 + k % 2 ? grads.values[k / 2] : T();
    }
    store_pack(grad_x + rows.above(i), above);
    store_pack(grad_x + rows.below(i), below);
  }
}

// One output per thread. Bound: bandwidth. A place outside its window gives 0.
template <class T, class Place, class Int>
__global__ void take_winners(Pool<Int> pool, Divisor<Int> place_width, const T* x,
                             const Place* places, T* y) {
  for_each_group(pool, [&](const typename Pool<Int>::Group& at) {
    const auto& [image, p, q, c] = at;
    const Int to = pool.output(image, p, q) + c;
    const Int place = static_cast<Int>(places[to]), row = place / place_width;
    const Int h = pool.rows.origin(p) + row;
    const Int w = pool.columns.origin(q) + place - row * place_width;
    const bool inside = pool.rows.begin(p) <= h && h < pool.rows.end(p) &&
                        pool.columns.begin(q) <= w && w < pool.columns.end(q);
    y[to] = inside ? x[pool.input(image, h, w) + c] : T();
  });
}

// Calls body.operator()<Place>() with the type of `dtype`.
template <class Body>
void dispatch_places(DType dtype, Body body) {
  if (dtype == DType::uint8) return body.template operator()<std::uint8_t>();
  body.template operator()<std::int32_t>();
}

double bytes_of(const Tensor& a, const Tensor& b, const Tensor& places) {
  const auto bytes = [](const Tensor& x) {
    return static_cast<double>(x.numel()) * static_cast<double>(size_bytes(x.dtype()));
  };
  return bytes(a) + bytes(b) + bytes(places);
}

// Describes the images as groups of 16 bytes of two rows, if possible.
template <int V>
bool as_two_rows(const PoolGeometry& g, TwoRows<V>& rows) {
  if (g.C != 1 || g.W() % V != 0 || !g.is_two_by_two() || !fits_int32(g)) return false;
  rows = {2 * g.num_outputs() / V, static_cast<std::int32_t>(g.W() / V)};
  return true;
}

// 2 or 3 if all windows are squares of that side, else 0.
int side_of(const PoolGeometry& g) {
  const std::int64_t side = g.rows.kernel;
  return side == g.columns.kernel && (side == 2 || side == 3) ? static_cast<int>(side) : 0;
}

}  // namespace

void max_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, const Tensor& places,
              Where where) {
  if (g.num_outputs() == 0) return;
  const double bytes = bytes_of(x, y, places);
  dispatch_floating(x.dtype(), [&]<class T>() {
    constexpr int V = 16 / sizeof(T);
    if (TwoRows<V> rows{}; is_aligned(x, 16) && as_two_rows(g, rows))
      return launch_groups("max_pool", x.device(), rows, bytes, where, max_two_by_two<V, T>,
                           x.device_data<T>(), y.device_data<T>(),
                           places.device_data<std::uint8_t>());
    const auto run = [&]<class Int, int kSide, int kChannels, class Place>() {
      launch_groups("max_pool", x.device(), groups_of_outputs<Int>(g, kChannels), bytes, where,
                    max_of_window<kSide, kChannels, T, Place, Int>, x.device_data<T>(),
                    y.device_data<T>(), places.device_data<Place>());
    };
    const auto run_any = [&]<class Int>() {
      dispatch_places(places.dtype(),
                      [&]<class Place>() { run.template operator()<Int, 0, 1, Place>(); });
    };
    if (!fits_int32(g)) return run_any.template operator()<std::int64_t>();
    const bool packs = g.C % V == 0 && is_aligned(x, 16);
    const auto run_square = [&]<int kSide>() {
      packs ? run.template operator()<std::int32_t, kSide, V, std::uint8_t>()
            : run.template operator()<std::int32_t, kSide, 1, std::uint8_t>();
    };
    switch (side_of(g)) {
      case 2:
        return run_square.template operator()<2>();
      case 3:
        return run_square.template operator()<3>();
      default:
        return run_any.template operator()<std::int32_t>();
    }
  });
}

void max_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& places,
                       const Tensor& grad_x, Where where) {
  if (g.num_inputs() == 0) return;
  const double bytes = bytes_of(grad_y, grad_x, places);
  dispatch_floating(grad_y.dtype(), [&]<class T>() {
    constexpr int V = 16 / sizeof(T);
    if (TwoRows<V> rows{};
        is_aligned(grad_y, 8) && is_aligned(places, V / 2) && as_two_rows(g, rows))
      return launch_groups("max_pool_backward", grad_y.device(), rows, bytes, where,
                           spread_two_by_two<V, T>, grad_y.device_data<T>(),
                           places.device_data<std::uint8_t>(), grad_x.device_data<T>());
    dispatch_places(places.dtype(), [&]<class Place>() {
      const auto run = [&]<class Int, int kPixels, int kChannels>() {
        launch_groups("max_pool_backward", grad_y.device(),
                      groups_of_inputs<Int>(g, kPixels, kChannels), bytes, where,
                      sum_of_wins<kPixels, kChannels, T, Place, Int>, grad_y.device_data<T>(),
                      places.device_data<Place>(), grad_x.device_data<T>());
      };
      if (!fits_int32(g)) return run.template operator()<std::int64_t, 1, 1>();
      if (g.C % V == 0 && is_aligned(grad_y, 16) && is_aligned(places, V * sizeof(Place)))
        return run.template operator()<std::int32_t, 1, V>();
      if (g.C == 1 && g.W() % V == 0) return run.template operator()<std::int32_t, V, 1>();
      run.template operator()<std::int32_t, 1, 1>();
    });
  });
}

void max_pool_gather(const PoolGeometry& g, const Tensor& x, const Tensor& places, const Tensor& y,
                     Where where) {
  if (g.num_outputs() == 0) return;
  dispatch_floating(x.dtype(), [&]<class T>() {
    dispatch_places(places.dtype(), [&]<class Place>() {
      const auto run = [&]<class Int>() {
        launch_groups("max_pool_gather", x.device(), groups_of_outputs<Int>(g, 1),
                      bytes_of(y, y, places), where, take_winners<T, Place, Int>,
                      Divisor<Int>(static_cast<Int>(g.place_width)), x.device_data<T>(),
                      places.device_data<Place>(), y.device_data<T>());
      };
      fits_int32(g) ? run.template operator()<std::int32_t>()
                    : run.template operator()<std::int64_t>();
    });
  });
}

}  // namespace ringrad::kernels::cuda
