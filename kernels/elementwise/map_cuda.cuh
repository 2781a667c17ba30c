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

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "ringrad/core/gpu/pack.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {

using ringrad::cuda::Pack;

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
  for (const std::int64_t i : own_elements(n)) {
    const auto offsets = nest.element_offsets(static_cast<Index>(i));
    const Out value = [&]<std::size_t... k>(std::index_sequence<k...>) {
      return function(load<In>(in.data[k], in.dtype[k], offsets[k + 1])...);
    }
    (std::index_sequence_for<In...>());
    store<Out>(out, out_dtype, offsets[0], value);
  }
}

template <std::size_t N>
struct MapAddresses {
  const void* data[N];
};

// REQUIRES: all operands are dense, have the same order, and are aligned for Pack
template <int V, class Out, class Function, class... In>
__global__ void map_linear(Function function, std::int64_t n, void* out_data,
                           MapAddresses<sizeof...(In)> in) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t first = pack * V;
  const auto compute = [&]<std::size_t... k>(std::index_sequence<k...>) {
    if (first + V <= n) {
      const auto map_pack = [&](const Pack<In, V>&... x) {
        Pack<Out, V> y;
        for (int i = 0; i < V; ++i)
          y.values[i] = Out(function(static_cast<MathType<In>>(x.values[i])...));
        return y;
      };
      static_cast<Pack<Out, V>*>(out_data)[pack] =
          map_pack(static_cast<const Pack<In, V>*>(in.data[k])[pack]...);
    } else {
      for (std::int64_t i = first; i < n; ++i)
        static_cast<Out*>(out_data)[i] =
            Out(function(static_cast<MathType<In>>(static_cast<const In*>(in.data[k])[i])...));
    }
  };
  compute(std::index_sequence_for<In...>());
}

// -- Host: for all functions at once --------------------------------------------------------------

inline bool is_aligned(const Tensor& x, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(x.raw_data()) % bytes == 0;
}

/// One launch of map_linear.
struct LinearWork {
  std::int64_t packs = 0;  ///< 0: the operands do not allow it
  double bytes = 0;        ///< that it moves
};

/// The work of visiting operands of these dtypes, `out` first, in packs of V elements.
LinearWork linear_work(const Tensor& out, std::span<const Tensor* const> in,
                       std::span<const DType> dtypes, int V);

/// The operand's strides along the axes of `shape`, to which the operand broadcasts.
Strides broadcast_strides(const Tensor& x, const Shape& shape);

/// The operands of a map. An operand is read as it is if its math_dtype is the dtype that it is
/// computed in; otherwise it is converted first.
template <std::size_t N>
class MapInputs {
 public:
  MapInputs(const std::array<const Tensor*, N>& operands, const std::array<DType, N>& computed,
            Where where) {
    for (std::size_t i = 0; i < N; ++i) {
      const bool direct = math_dtype(operands[i]->dtype()) == computed[i];
      if (!direct) converted_[i] = cast(*operands[i], computed[i], where);
      tensors_[i] = direct ? operands[i] : &converted_[i];
    }
  }
  MapInputs(const MapInputs&) = delete;
  MapInputs& operator=(const MapInputs&) = delete;

  std::span<const Tensor* const> tensors() const { return tensors_; }

  MapAddresses<N> addresses() const {
    MapAddresses<N> result;
    for (std::size_t i = 0; i < N; ++i) result.data[i] = tensors_[i]->raw_data();
    return result;
  }

  MapOperands<N> operands() const {
    MapOperands<N> result;
    for (std::size_t i = 0; i < N; ++i) {
      result.data[i] = tensors_[i]->raw_data();
      result.dtype[i] = tensors_[i]->dtype();
    }
    return result;
  }

  LoopNest<1 + N> nest(const Tensor& out) const {
    std::array<Strides, N + 1> strides;
    std::array<const Strides*, N + 1> pointers;
    strides[0] = out.strides();
    pointers[0] = &strides[0];
    for (std::size_t i = 0; i < N; ++i) {
      strides[i + 1] = broadcast_strides(*tensors_[i], out.shape());
      pointers[i + 1] = &strides[i + 1];
    }
    return make_loop_nest<N + 1>(out.shape(), pointers);
  }

 private:
  std::array<Tensor, N> converted_;  // undefined where there was nothing to convert
  std::array<const Tensor*, N> tensors_;
};

// -- Host: for each function ----------------------------------------------------------------------

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
  const MapInputs<N> in(operands, {dtype_of<In>...}, where);
  LaunchConfig config{};
  if constexpr ((std::is_same_v<In, float> || ...)) {
    // The kernel for elements of one storage type T (and bool for conditions and results of
    // predicates), if the operands allow it.
    void (*linear)(Function, std::int64_t, void*, MapAddresses<N>) = nullptr;
    const auto attempt = [&]<class T>() {
      constexpr int V = 16 / sizeof(T);
      static constexpr DType kDTypes[] = {dtype_of<StoredAs<Out, T>>, dtype_of<StoredAs<In, T>>...};
      const LinearWork work = linear_work(out, in.tensors(), kDTypes, V);
      if (work.packs == 0) return false;
      linear = map_linear<V, StoredAs<Out, T>, Function, StoredAs<In, T>...>;
      config = thread_per_element(name, work.packs, work.bytes);
      return true;
    };
    if (attempt.template operator()<float>() || attempt.template operator()<bfloat16>() ||
        attempt.template operator()<float16>())
      return launch_on(out.device(), config, where, linear, function, out.numel(), out.raw_data(),
                       in.addresses());
  }
  config = thread_per_element(name, out.numel());
  const bool is_small = out.numel() <= std::numeric_limits<std::int32_t>::max();
  launch_on(out.device(), config, where,
            is_small ? map_strided<std::uint32_t, Out, Function, In...>
                     : map_strided<std::uint64_t, Out, Function, In...>,
            function, out.numel(), out.raw_data(), out.dtype(), in.operands(), in.nest(out));
}

}  // namespace ringrad::kernels::cuda
