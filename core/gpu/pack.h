// Pack: neighbouring elements that a GPU moves in one instruction.

#pragma once

namespace ringrad::cuda {

template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

}  // namespace ringrad::cuda
