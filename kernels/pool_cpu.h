// The CPU's pooling loops. Private to pool.cc.
//
// Images are (images, H, W, C), channels innermost. A contiguous (B, C, H, W) tensor is that as
// well, with B * C images of one channel, so one set of loops serves both orders of memory.

#pragma once

#include <cstdint>
#include <vector>

namespace ringrad::kernels::cpu {

/// The part of one axis that belongs to one output: inputs [begin, end), which lie inside of the
/// axis.
struct PoolWindow {
  std::int64_t begin, end;
  std::int64_t origin;  ///< where the window starts before clipping: its place 0
  std::int64_t count;   ///< by how many inputs a mean divides
};

struct PoolGeometry {
  std::int64_t images, H, W, C;
  std::vector<PoolWindow> rows, columns;  // P and Q windows
  std::int64_t place_width;               // place = row of the window * place_width + column

  std::int64_t P() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t Q() const { return static_cast<std::int64_t>(columns.size()); }
};

/// Place: uint8_t or int32_t, wide enough for every place.
template <class T, class Place>
void max_pool(const PoolGeometry& g, const T* x, T* y, Place* places);
template <class T, class Place>
void max_pool_backward(const PoolGeometry& g, const T* grad_y, const Place* places, T* grad_x);
template <class T, class Place>
void max_pool_gather(const PoolGeometry& g, const T* x, const Place* places, T* y);

template <class T>
void avg_pool(const PoolGeometry& g, const T* x, T* y);
template <class T>
void avg_pool_backward(const PoolGeometry& g, const T* grad_y, T* grad_x);

}  // namespace ringrad::kernels::cpu
