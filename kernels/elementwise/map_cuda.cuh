// map on a GPU: one function over the elements of several operands that broadcast to the shape of
// the output. Private to kernels/*_cuda.cu; map_cpu.h is its counterpart.
//
// Two kernels serve every function:
//
//     map_strided    one element per thread, found by dividing its number by the extents:
//                    broadcasting, any strides, 16-bit floats mixed with float32
//     map_linear     16 bytes of each operand per thread, if all operands have the output's layout:
//                    runs at memory bandwidth

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/convert.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/loop_nest.h"

namespace ringrad::kernels::cuda {

inline constexpr int kMapThreads = 256;

/// Element `offset` as a number of type Math. REQUIRES: math_dtype(dtype) == dtype_of<Math>
template <class Math>
__device__ Math load(const void* data, DType dtype, std::int64_t offset) {
  if constexpr (std::is_same_v<Math, float>) {
    if (dtype == DType::bfloat16) return static_cast<const bfloat16*>(data)[offset];
    if (dtype == DType::float16) return static_cast<const float16*>(data)[offset];
  }
  return static_cast<const Math*>(data)[offset];
}

template <class Math>
__device__ void store(void* data, DType dtype, std::int64_t offset, Math value) {
  if constexpr (std::is_same_v<Math, float>) {
    if (dtype == DType::bfloat16) {
      static_cast<bfloat16*>(data)[offset] = bfloat16(value);
      return;
    }
    if (dtype == DType::float16) {
      static_cast<float16*>(data)[offset] = float16(value);
      return;
    }
  }
  static_cast<Math*>(data)[offset] = value;
}

template <std::size_t N>
struct MapOperands {
  const void* data[N];
  DType dtype[N];
};

template <class Index, class Out, class Function, class... In>
__global__ void map_strided(Function function, std::int64_t n, void* out, DType out_dtype,
                            MapOperands<sizeof...(In)> in, LoopNest<1 + sizeof...(In)> nest) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < n; i += step) {
    const auto offsets = nest.element_offsets(static_cast<Index>(i));
    const Out value = [&]<std::size_t... k>(std::index_sequence<k...>) {
      return function(load<In>(in.data[k], in.dtype[k], offsets[k + 1])...);
    }
    (std::index_sequence_for<In...>());
    store<Out>(out, out_dtype, offsets[0], value);
  }
}

/// V neighbouring elements, moved in one instruction.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

// REQUIRES: all operands are dense, have the same order, and are aligned for Pack
template <int V, class Out, class Function, class... In>
__global__ void map_linear(Function function, std::int64_t n, Out* out, const In*... in) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t first = pack * V;
  if (first + V <= n) {
    const auto compute = [&](const Pack<In, V>&... x) {
      Pack<Out, V> y;
      for (int k = 0; k < V; ++k)
        y.values[k] = Out(function(static_cast<MathType<In>>(x.values[k])...));
      return y;
    };
    reinterpret_cast<Pack<Out, V>*>(out)[pack] =
        compute(reinterpret_cast<const Pack<In, V>*>(in)[pack]...);
  } else {
    for (std::int64_t i = first; i < n; ++i)
      out[i] = Out(function(static_cast<MathType<In>>(in[i])...));
  }
}

// -- Host -----------------------------------------------------------------------------------------

/// The operand's strides along the axes of `shape`, to which the operand broadcasts.
inline Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  Strides strides = Shape::filled(shape.size(), 0);
  const int missing = shape.size() - x.dims();
  for (int axis = 0; axis < x.dims(); ++axis)
    if (x.shape()[axis] != 1) strides[axis + missing] = x.strides()[axis];
  return strides;
}

inline bool is_aligned(const Tensor& x, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(x.raw_data()) % bytes == 0;
}

// Runs map_linear for elements of one storage type T (and bool for conditions and results of
// predicates), if the operands allow it.
template <class T, class Out, class Function, class... In, std::size_t... k>
bool try_linear(const char* name, const Function& function, const Tensor& out,
                const Tensor* const* in, std::index_sequence<k...>, Where where) {
  constexpr int V = 16 / sizeof(T);
  const auto fits = [&]<class E>(const Tensor& x) {
    return x.dtype() == dtype_of<E> && x.shape() == out.shape() && x.strides() == out.strides() &&
           is_aligned(x, sizeof(E) * V);
  };
  if (!is_dense(out.shape(), out.strides())) return false;
  if (!fits.template operator()<Out>(out)) return false;
  if (!(fits.template operator()<In>(*in[k]) && ...)) return false;
  const std::int64_t packs = (out.numel() + V - 1) / V;
  if (packs > std::int64_t{std::numeric_limits<std::int32_t>::max()} * kMapThreads) return false;
  const double bytes = (sizeof(Out) + ... + sizeof(In)) * static_cast<double>(out.numel());
  launch_on(
      out.device(),
      {.name = name, .grid = num_blocks(packs, kMapThreads), .block = kMapThreads, .bytes = bytes},
      where, map_linear<V, Out, Function, In...>, function, out.numel(), out.device_data<Out>(),
      in[k]->device_data<In>()...);
  return true;
}

/// The storage type of an operand: T if its Math is float32, else Math itself.
template <class Math, class T>
using StoredAs = std::conditional_t<std::is_same_v<Math, float>, T, Math>;

/// out = function(operands...), element by element. In are the types that the function takes, Out
/// is the type that it returns; none is a 16-bit float.
///
/// REQUIRES: as cpu::map
template <class Out, class... In, class Function>
void map(const char* name, const Function& function, const Tensor& out,
         const std::array<const Tensor*, sizeof...(In)>& operands, Where where) {
  constexpr std::size_t N = sizeof...(In);
  if (out.numel() == 0) return;
  // An operand is converted first unless its dtype is the type it is computed in or a storage form
  // of it.
  const std::array<DType, N> wanted = {dtype_of<In>...};
  std::array<Tensor, N> converted;
  const Tensor* in[N];
  for (std::size_t i = 0; i < N; ++i) {
    const bool direct = math_dtype(operands[i]->dtype()) == wanted[i];
    if (!direct) converted[i] = cast(*operands[i], wanted[i], where);
    in[i] = direct ? operands[i] : &converted[i];
  }
  if constexpr ((std::is_same_v<In, float> || ...)) {
    const auto attempt = [&]<class T>() {
      return try_linear<T, StoredAs<Out, T>, Function, StoredAs<In, T>...>(
          name, function, out, in, std::make_index_sequence<N>(), where);
    };
    if (attempt.template operator()<float>() || attempt.template operator()<bfloat16>() ||
        attempt.template operator()<float16>())
      return;
  }
  MapOperands<N> places;
  std::array<Strides, N + 1> strides;
  std::array<const Strides*, N + 1> pointers;
  strides[0] = out.strides();
  pointers[0] = &strides[0];
  for (std::size_t i = 0; i < N; ++i) {
    places.data[i] = in[i]->raw_data();
    places.dtype[i] = in[i]->dtype();
    strides[i + 1] = broadcast_strides(*in[i], out.shape());
    pointers[i + 1] = &strides[i + 1];
  }
  const auto nest = make_loop_nest<N + 1>(out.shape(), pointers);
  const LaunchConfig config{
      .name = name, .grid = num_blocks(out.numel(), kMapThreads), .block = kMapThreads};
  const auto run = [&](auto kernel) {
    launch_on(out.device(), config, where, kernel, function, out.numel(), out.raw_data(),
              out.dtype(), places, nest);
  };
  if (out.numel() <= std::numeric_limits<std::int32_t>::max())
    run(map_strided<std::uint32_t, Out, Function, In...>);
  else
    run(map_strided<std::uint64_t, Out, Function, In...>);
}

}  // namespace ringrad::kernels::cuda
