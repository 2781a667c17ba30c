#include "ringrad/benchmarks/collective_case.h"

#include <algorithm>
#include <cstring>

#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::bench {
namespace {

// True if the output or the input holds a part for each rank.
bool has_parts(Routine routine) {
  return routine == Routine::reduce_scatter || routine == Routine::all_gather ||
         routine == Routine::all_to_all;
}

// The input of rank r at place i: 0 to 3; for products 1, and 2 in every 16th place.
int value_of(ReduceOp op, int rank, std::int64_t i) {
  if (op == ReduceOp::product) return (i + rank) % 16 == 0 ? 2 : 1;
  auto bits =
      static_cast<std::uint32_t>(i) * 2654435761U + static_cast<std::uint32_t>(rank) * 40503U;
  bits ^= bits >> 15;
  return static_cast<int>(bits * 2246822519U >> 30);
}

template <class T>
T element(std::int64_t value) {
  return static_cast<T>(static_cast<MathType<T>>(value));
}

// The expected value: a plain loop over the ranks.
template <class T>
T reduced(const CollectiveCase& one, std::int64_t i) {
  std::int64_t result = value_of(one.op, 0, i);
  if constexpr (std::is_same_v<T, bool>) result = result != 0;
  for (int rank = 1; rank < one.ranks; ++rank) {
    std::int64_t value = value_of(one.op, rank, i);
    if constexpr (std::is_same_v<T, bool>) value = value != 0;
    switch (one.op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        result += value;
        break;
      case ReduceOp::product:
        result *= value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
    }
  }
  if (one.op == ReduceOp::mean)
    return static_cast<T>(static_cast<MathType<T>>(result) / static_cast<MathType<T>>(one.ranks));
  return element<T>(result);
}

// The expected value at place i of rank `rank`'s output.
template <class T>
T expected(const CollectiveCase& one, int rank, std::int64_t i) {
  const auto from = [&](std::int64_t sender, std::int64_t place) {
    return element<T>(value_of(one.op, static_cast<int>(sender), place));
  };
  switch (one.routine) {
    case Routine::all_reduce:
    case Routine::reduce:
      return reduced<T>(one, i);
    case Routine::reduce_scatter:
      return reduced<T>(one, rank * one.count + i);
    case Routine::all_gather:
      return from(i / one.count, i % one.count);
    case Routine::broadcast:
      return from(one.root, i);
    case Routine::all_to_all:
      return from(i / one.count, rank * one.count + i % one.count);
    case Routine::send_recv:
      break;
  }
  return from((rank + one.ranks - 1) % one.ranks, i);
}

}  // namespace

const char* name(Routine routine) {
  constexpr const char* kNames[kNumRoutines] = {"all_reduce", "reduce_scatter", "all_gather",
                                                "broadcast",  "reduce",         "all_to_all",
                                                "send_recv"};
  return kNames[static_cast<int>(routine)];
}

void CollectiveCase::set_size(std::int64_t bytes) {
  const auto unit = static_cast<std::int64_t>(size_bytes(dtype)) * (has_parts(routine) ? ranks : 1);
  count = (bytes + unit - 1) / unit;
}

std::int64_t CollectiveCase::bytes() const {
  return std::max(input_count(), output_count()) * static_cast<std::int64_t>(size_bytes(dtype));
}

std::int64_t CollectiveCase::input_count() const {
  const bool whole = routine == Routine::reduce_scatter || routine == Routine::all_to_all;
  return whole ? ranks * count : count;
}

std::int64_t CollectiveCase::output_count() const {
  const bool whole = routine == Routine::all_gather || routine == Routine::all_to_all;
  return whole ? ranks * count : count;
}

double CollectiveCase::busbw_factor() const {
  const double part = static_cast<double>(ranks - 1) / ranks;
  return routine == Routine::all_reduce ? 2 * part : has_parts(routine) ? part : 1;
}

void fill_input(const CollectiveCase& one, int rank, const Tensor& input) {
  const bool is_host = input.device().is_cpu();
  const Tensor host =
      is_host ? input : empty(input.shape(), {.dtype = one.dtype, .device = Device()});
  dispatch_dtype(one.dtype, [&]<class T>() {
    T* data = host.data<T>();
    for (std::int64_t i = 0; i < host.numel(); ++i) data[i] = element<T>(value_of(one.op, rank, i));
  });
  if (!is_host) kernels::copy_(input, host);
}

void fill_zero(const Tensor& tensor) {
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype());
  if (tensor.device().is_cpu())
    std::memset(tensor.raw_data(), 0, bytes);
  else
    kernels::copy_(tensor, zeros(tensor.shape(), {.dtype = tensor.dtype(), .device = Device()}));
}

std::int64_t count_wrong(const CollectiveCase& one, int rank, const Tensor& output) {
  if (one.routine == Routine::reduce && rank != one.root) return 0;  // scratch
  const Tensor host = to_host(output);
  const int planted_on = one.routine == Routine::reduce ? one.root : one.ranks - 1;
  return dispatch_dtype(one.dtype, [&]<class T>() {
    T* data = host.data<T>();
    auto* raw = reinterpret_cast<unsigned char*>(data);
    if (rank == planted_on)
      for (std::int64_t i = 0; i < std::min<std::int64_t>(one.plant, host.numel()); ++i)
        raw[i * static_cast<std::int64_t>(sizeof(T))] ^= 1;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < host.numel(); ++i) {
      const T right = expected<T>(one, rank, i);
      wrong += std::memcmp(data + i, &right, sizeof(T)) != 0;
    }
    return wrong;
  });
}

}  // namespace ringrad::bench
