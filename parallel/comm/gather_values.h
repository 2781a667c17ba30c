// gather_values: every rank's value of a small type, on all ranks.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The values of all ranks, in rank order. `group` has all_gather(), as a Communicator does. All
/// ranks must call it.
///
/// Throws:  as Communicator::all_gather
template <class T, class Group>
std::vector<T> gather_values(Group&& group, int world_size, const T& own, Where where) {
  static_assert(std::is_trivially_copyable_v<T>);
  // Errors show the call, and whole numbers read best as what they are.
  constexpr bool kIsNumber = std::is_same_v<T, std::int64_t>;
  constexpr auto kElements = static_cast<std::int64_t>(kIsNumber ? 1 : sizeof(T));
  const Options on_host{.dtype = kIsNumber ? DType::int64 : DType::uint8, .device = Device()};
  const Tensor mine = empty({kElements}, on_host, where);
  const Tensor all = empty({world_size * kElements}, on_host, where);
  std::memcpy(mine.raw_data(), &own, sizeof(T));
  group.all_gather(all, mine, where);
  std::vector<T> values(static_cast<std::size_t>(world_size));
  std::memcpy(values.data(), all.raw_data(), values.size() * sizeof(T));
  return values;
}

template <class T, class Group>
std::vector<T> gather_values(Group&& group, const T& own, Where where) {
  return gather_values(group, group.world_size(), own, where);
}

}  // namespace ringrad
