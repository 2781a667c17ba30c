// Shuffles and votes: the lanes of a warp that are named in the mask meet and exchange a value.
//
// Nonexistent lanes, in the last warp of a block, do not count. A lane that asks for the value of a
// lane outside the mask gets NaN or all ones; on hardware the value would be undefined.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringrad/sim/device/site.h"

namespace ringrad::sim {

/// The values that lanes passed to an exchange, by lane; valid for the lanes in the mask.
struct Exchanged {
  const std::uint64_t* values;
  std::uint32_t mask;
};

}  // namespace ringrad::sim

namespace ringrad::sim::device {

/// Waits for all existing lanes of the mask; returns the values that they passed.
Exchanged exchange(unsigned mask, std::uint64_t value, const char* operation, Site site);
void sync_warp(unsigned mask, Site site);
unsigned lane();
unsigned active_lanes();

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// `value` of lane `source`, or of this lane if `source` lies outside of its group of `width`.
template <class T>
T shuffle(unsigned mask, T value, int source, bool in_group, const char* operation, Site site) {
  const Exchanged exchanged = exchange(mask, to_bits(value), operation, site);
  if (!in_group) return value;
  return from_bits<T>(exchanged.mask >> source & 1 ? exchanged.values[source] : ~std::uint64_t{0});
}

}  // namespace ringrad::sim::device

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              ringrad::sim::Site site = ringrad::sim::Site::here()) {
  const int first = static_cast<int>(ringrad::sim::device::lane()) & ~(width - 1);
  return ringrad::sim::device::shuffle(mask, value, first + (source & (width - 1)), true,
                                       "__shfl_sync()", site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  ringrad::sim::Site site = ringrad::sim::Site::here()) {
  const int lane = static_cast<int>(ringrad::sim::device::lane());
  const int source = lane ^ lanes;
  return ringrad::sim::device::shuffle(mask, value, source, source <= (lane | (width - 1)),
                                       "__shfl_xor_sync()", site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   ringrad::sim::Site site = ringrad::sim::Site::here()) {
  const int lane = static_cast<int>(ringrad::sim::device::lane());
  const int source = lane + static_cast<int>(delta);
  return ringrad::sim::device::shuffle(mask, value, source, source <= (lane | (width - 1)),
                                       "__shfl_down_sync()", site);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 ringrad::sim::Site site = ringrad::sim::Site::here()) {
  const int lane = static_cast<int>(ringrad::sim::device::lane());
  const int source = lane - static_cast<int>(delta);
  return ringrad::sim::device::shuffle(mask, value, source, source >= (lane & ~(width - 1)),
                                       "__shfl_up_sync()", site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              ringrad::sim::Site site = ringrad::sim::Site::here()) {
  const auto [votes, lanes] =
      ringrad::sim::device::exchange(mask, predicate != 0, "__ballot_sync()", site);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && votes[lane]) ballot |= 1u << lane;
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate,
                      ringrad::sim::Site site = ringrad::sim::Site::here()) {
  return __ballot_sync(mask, predicate, site) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      ringrad::sim::Site site = ringrad::sim::Site::here()) {
  return __ballot_sync(mask, !predicate, site) == 0;
}

inline void __syncwarp(unsigned mask = ~0u, ringrad::sim::Site site = ringrad::sim::Site::here()) {
  ringrad::sim::device::sync_warp(mask, site);
}

inline unsigned __activemask() { return ringrad::sim::device::active_lanes(); }
