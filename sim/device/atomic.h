// Atomic operations, relaxed as CUDA's are: they order nothing but themselves. Changing memory is
// progress, which distinguishes kernels that wait for each other from kernels that wait forever.

#pragma once

#include <type_traits>

namespace ringrad::sim::device {

void note_progress();

/// Replaces *p by update(*p); returns the old value.
template <class T, class Update>
T atomic_update(T* p, Update update) {
  T old, next;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do next = update(old);
  while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  if (next != old) note_progress();
  return old;
}

}  // namespace ringrad::sim::device

#define RINGRAD_SIM_ATOMIC(name, updated)                                          \
  template <class T>                                                               \
  T name(T* p, std::type_identity_t<T> value) {                                    \
    return ringrad::sim::device::atomic_update(p, [=](T old) { return updated; }); \
  }
RINGRAD_SIM_ATOMIC(atomicAdd, old + value)
RINGRAD_SIM_ATOMIC(atomicSub, old - value)
RINGRAD_SIM_ATOMIC(atomicMax, old < value ? value : old)
RINGRAD_SIM_ATOMIC(atomicMin, value < old ? value : old)
RINGRAD_SIM_ATOMIC(atomicAnd, (old & value))
RINGRAD_SIM_ATOMIC(atomicOr, old | value)
RINGRAD_SIM_ATOMIC(atomicXor, old ^ value)
#undef RINGRAD_SIM_ATOMIC

/// *p + 1, or 0 where that would pass the limit.
inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return ringrad::sim::device::atomic_update(
      p, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p,
                                             [=](T old) { return old == expected ? value : old; });
}
