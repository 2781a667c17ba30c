// The calls that the mock of NCCL receives, and their results, computed on the CPU from copies of
// all ranks' inputs.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "ringrad/core/half.h"
#include "ringrad/parallel/comm/gpu/nccl_library.h"

namespace ringrad::testing {

using nccl::DataType;
using nccl::RedOp;

// --- Calls ---

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

struct Call {
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;  // as passed to the function
  DataType type;
  RedOp op;
  int peer;
  cudaStream_t stream;

  bool fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           peer == other.peer;
  }
  bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
};

inline std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::uint8:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::float32:
      return 4;
    default:
      return 8;
  }
}

// One rank's part of a call: the data that it read and the data that it will write.
struct Part {
  Call call;
  std::byte *input = nullptr, *result = nullptr;
  std::size_t input_bytes = 0, result_bytes = 0;
};

// --- Computing results ---

template <class T>
T combine(RedOp op, T a, T b) {
  using Math = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 2, float, T>>;
  switch (op) {
    case RedOp::product:
      return static_cast<T>(static_cast<Math>(a) * static_cast<Math>(b));
    case RedOp::min:
      return std::is_integral_v<T> ? std::min(a, b) : static_cast<T>(std::fmin(Math(a), Math(b)));
    case RedOp::max:
      return std::is_integral_v<T> ? std::max(a, b) : static_cast<T>(std::fmax(Math(a), Math(b)));
    default:
      return static_cast<T>(static_cast<Math>(a) + static_cast<Math>(b));
  }
}

// Element `i` of all ranks' inputs. NCCL multiplies by 1 / n first; here the mean is the sum
// divided.
template <class T>
T reduced(const std::vector<std::vector<Part>>& ranks, RedOp op, std::size_t i) {
  const auto at = [&](std::size_t r) { return reinterpret_cast<const T*>(ranks[r][0].input)[i]; };
  if constexpr (!std::is_integral_v<T>) {
    if (op == RedOp::sum || op == RedOp::average) {
      double sum = 0;
      for (std::size_t r = 0; r < ranks.size(); ++r) sum += static_cast<double>(at(r));
      if (op == RedOp::average) sum /= static_cast<double>(ranks.size());
      if constexpr (std::is_same_v<T, double>)
        return sum;
      else
        return static_cast<T>(static_cast<float>(sum));
    }
  }
  T result = at(0);
  for (std::size_t r = 1; r < ranks.size(); ++r) result = combine(op, result, at(r));
  return result;
}

template <class T>
void reduce_all(std::vector<std::vector<Part>>& ranks) {
  const Call& call = ranks[0][0].call;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Part& part = ranks[r][0];
    const std::size_t first = call.kind == Kind::reduce_scatter ? r * call.count : 0;
    for (std::size_t i = 0; i < part.result_bytes / sizeof(T); ++i)
      reinterpret_cast<T*>(part.result)[i] = reduced<T>(ranks, call.op, first + i);
  }
}

inline void reduce_all(std::vector<std::vector<Part>>& ranks) {
  switch (ranks[0][0].call.type) {
    case DataType::uint8:
      return reduce_all<std::uint8_t>(ranks);
    case DataType::int32:
      return reduce_all<std::int32_t>(ranks);
    case DataType::int64:
      return reduce_all<std::int64_t>(ranks);
    case DataType::float16:
      return reduce_all<float16>(ranks);
    case DataType::bfloat16:
      return reduce_all<bfloat16>(ranks);
    case DataType::float32:
      return reduce_all<float>(ranks);
    case DataType::float64:
      return reduce_all<double>(ranks);
  }
}

// Messages from rank `from` to rank `to`, in order, are matched with the receives of rank `to`.
inline bool deliver(std::vector<Part>& from_parts, int from, std::vector<Part>& to_parts, int to) {
  std::vector<Part*> sent, received;
  for (Part& part : from_parts)
    if (part.call.kind == Kind::send && part.call.peer == to) sent.push_back(&part);
  for (Part& part : to_parts)
    if (part.call.kind == Kind::recv && part.call.peer == from) received.push_back(&part);
  if (sent.size() != received.size()) return false;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i]->input_bytes != received[i]->result_bytes) return false;
    std::memcpy(received[i]->result, sent[i]->input, sent[i]->input_bytes);
  }
  return true;
}

// False if the ranks' calls do not match.
inline bool compute(std::vector<std::vector<Part>>& ranks) {
  const int n = static_cast<int>(ranks.size());
  if (ranks[0][0].call.is_message()) {
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (!deliver(ranks[from], from, ranks[to], to)) return false;
    return true;
  }
  const Call& call = ranks[0][0].call;
  for (auto& parts : ranks)
    if (parts.size() != 1 || !parts[0].call.fits(call)) return false;
  if (call.kind == Kind::broadcast) {
    for (auto& parts : ranks)
      std::memcpy(parts[0].result, ranks[call.peer][0].input, parts[0].result_bytes);
  } else if (call.kind == Kind::all_gather) {
    for (auto& parts : ranks)
      for (int r = 0; r < n; ++r)
        std::memcpy(parts[0].result + r * ranks[r][0].input_bytes, ranks[r][0].input,
                    ranks[r][0].input_bytes);
  } else {
    reduce_all(ranks);
  }
  return true;
}

}  // namespace ringrad::testing
