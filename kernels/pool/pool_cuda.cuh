// The shared part of the pooling kernels: which elements a thread works on. Private to
// kernels/pool.
//
// Threads process groups of neighbours in memory: kChannels channels of a pixel, or kPixels pixels
// of a row of a single-channel image. A group of 16 bytes is moved in one instruction, and its
// thread computes window positions once for the whole group.

#pragma once

#include <cstdint>

#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/pool/pool_windows.h"

namespace ringrad::kernels::cuda {

inline constexpr int kPoolThreads = 256;

/// The geometry as kernels see it. Int is int32_t if all numbers fit.
template <class Int>
struct Pool {
  PoolWindows<Int> rows, columns;
  Int C = 0, place_width = 0;
  Divisor<Int> group_rows, group_columns, group_channels;
  std::int64_t groups = 0;

  struct Group {
    Int image, row, column, channel;  // column and channel counted in groups
  };
  constexpr Group group(std::int64_t number) const {
    const Int pixel = static_cast<Int>(number) / group_channels;
    const Int row = pixel / group_columns, image = row / group_rows;
    return {image, row - image * group_rows, pixel - row * group_columns,
            static_cast<Int>(number) - pixel * group_channels};
  }

  constexpr Int input(Int image, Int h, Int w) const {
    return ((image * rows.extent + h) * columns.extent + w) * C;
  }
  constexpr Int output(Int image, Int p, Int q) const {
    return ((image * rows.outputs + p) * columns.outputs + q) * C;
  }
};

/// Calls body(group) for every group, one per thread and iteration.
template <class Int, class Body>
__device__ void for_each_group(const Pool<Int>& pool, Body body) {
  for (const std::int64_t i : own_elements(pool.groups)) body(pool.group(i));
}

template <int V, class T>
__device__ Pack<T, V> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}
template <int V, class T>
__device__ void store_pack(T* to, const Pack<T, V>& values) {
  *reinterpret_cast<Pack<T, V>*>(to) = values;
}

// -- Host -----------------------------------------------------------------------------------------

/// True if the kernels' arithmetic on these numbers stays below 2^31, even if a loop counts one
/// step too far.
inline bool fits_int32(const PoolGeometry& g) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto fits = [](const PoolWindows<std::int64_t>& w) {
    return w.is_adaptive() ? (w.extent + 1) * (w.outputs + 1) <= kMost
                           : w.extent + w.kernel + w.stride + 2 * w.padding <= kMost;
  };
  return g.num_inputs() <= kMost && g.num_outputs() <= kMost && fits(g.rows) && fits(g.columns);
}

/// Groups of outputs; the last group of a pixel may be smaller.
template <class Int>
Pool<Int> groups_of_outputs(const PoolGeometry& g, int channels) {
  const auto to = [](std::int64_t number) { return static_cast<Int>(number); };
  const std::int64_t groups_of_pixel = (g.C + channels - 1) / channels;
  return {.rows = g.rows.as<Int>(),
          .columns = g.columns.as<Int>(),
          .C = to(g.C),
          .place_width = to(g.place_width),
          .group_rows = to(g.P()),
          .group_columns = to(g.Q()),
          .group_channels = to(groups_of_pixel),
          .groups = g.images * g.P() * g.Q() * groups_of_pixel};
}

/// Groups of inputs. REQUIRES: pixels divides W, channels divides C
template <class Int>
Pool<Int> groups_of_inputs(const PoolGeometry& g, int pixels, int channels) {
  const auto to = [](std::int64_t number) { return static_cast<Int>(number); };
  return {.rows = g.rows.as<Int>(),
          .columns = g.columns.as<Int>(),
          .C = to(g.C),
          .place_width = to(g.place_width),
          .group_rows = to(g.H()),
          .group_columns = to(g.W() / pixels),
          .group_channels = to(g.C / channels),
          .groups = g.num_inputs() / (pixels * channels)};
}

/// One thread per group. REQUIRES: at least one group
template <class Groups, class... Parameters, class... Arguments>
void launch_groups(const char* name, Device device, const Groups& groups, double bytes, Where where,
                   void (*kernel)(Groups, Parameters...), Arguments... arguments) {
  launch_on(device, thread_per_element(name, groups.groups, bytes), where, kernel, groups,
            arguments...);
}

}  // namespace ringrad::kernels::cuda
