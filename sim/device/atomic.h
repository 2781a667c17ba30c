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

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old + value; });
}
template <class T>
T atomicSub(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old - value; });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old & value; });
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old | value; });
}
template <class T>
T atomicXor(T* p, std::type_identity_t<T> value) {
  return ringrad::sim::device::atomic_update(p, [=](T old) { return old ^ value; });
}
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
