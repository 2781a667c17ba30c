#include "ringrad/parallel/train/data_parallel/top_k_compression.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/parallel/train/data_parallel/error_memory.h"
#include "ringrad/parallel/train/data_parallel/hook_state.h"

namespace ringrad {
namespace {

// k numbers and their places, as they are sent: | k values | k indices |, padded to a whole number
// of values.
template <class T>
struct Chosen {
  Chosen(std::byte* message, std::int64_t k)
      : values(reinterpret_cast<T*>(message), static_cast<std::size_t>(k)),
        indices(reinterpret_cast<std::int32_t*>(message + values.size_bytes()), values.size()) {}

  static std::int64_t bytes(std::int64_t k) {
    constexpr std::int64_t width = sizeof(T), index_width = sizeof(std::int32_t);
    return k * width + (k * index_width + width - 1) / width * width;
  }

  std::span<T> values;
  std::span<std::int32_t> indices;
};

template <class T>
T magnitude(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::infinity() : std::abs(value);
}

// The k-th largest magnitude, and how many places of that magnitude are among the k.
template <class T>
std::pair<T, std::int64_t> threshold(std::span<const T> values, std::int64_t k) {
  std::vector<T> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), magnitude<T>);
  const auto last = magnitudes.begin() + (k - 1);
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const T least = *last;
  return {least, k - std::count_if(magnitudes.begin(), last, [&](T m) { return m > least; })};
}

// Moves the k largest from `left` to the message.
template <class T>
void choose(std::span<T> left, const Chosen<T>& chosen) {
  auto [least, num_least] = threshold<T>(left, static_cast<std::int64_t>(chosen.values.size()));
  std::size_t next = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const T size = magnitude(left[i]);
    if (size > least || (size == least && num_least-- > 0)) {
      chosen.values[next] = left[i];
      chosen.indices[next++] = static_cast<std::int32_t>(i);
      left[i] = 0;
    } else if (!std::isfinite(left[i])) {
      left[i] = 0;
    }
  }
}

// The average of what all ranks have chosen.
template <class T>
Tensor average(std::byte* messages, int world_size, std::int64_t k, std::int64_t count,
               Where where) {
  const Tensor sum = zeros({count}, {.dtype = dtype_of<T>, .device = Device()}, where);
  T* const sums = sum.data<T>();
  for (int rank = 0; rank < world_size; ++rank) {
    const Chosen<T> chosen(messages + rank * Chosen<T>::bytes(k), k);
    for (std::size_t i = 0; i < chosen.values.size(); ++i)
      sums[chosen.indices[i]] += chosen.values[i];
  }
  for (std::int64_t i = 0; i < count; ++i) sums[i] /= static_cast<T>(world_size);
  return sum;
}

template <class T>
void reduce(const Tensor& gradients, const Tensor& left, double ratio, Communicator& comm,
            Where where) {
  const std::int64_t count = left.numel();
  const auto k =
      std::min(count, static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(count))));
  const Tensor on_host = to_host(left, where);
  const Options bytes{.dtype = DType::uint8, .device = Device()};
  const Tensor own = zeros({Chosen<T>::bytes(k)}, bytes, where);
  choose<T>({on_host.data<T>(), static_cast<std::size_t>(count)}, {own.raw_data(), k});
  if (!left.device().is_cpu()) kernels::copy_(left, on_host, where);
  const Tensor all = empty({comm.world_size() * own.numel()}, bytes, where);
  comm.all_gather(all, own, where);
  const Tensor mean = average<T>(all.raw_data(), comm.world_size(), k, count, where);
  kernels::copy_(gradients, kernels::cast(mean, gradients.dtype(), where), where);
}

}  // namespace

CommunicationHook top_k_compression(const TopKOptions& options, Where where) {
  RINGRAD_CHECK(options.ratio > 0 && options.ratio <= 1, ValueError, where,
                "top_k_compression: ratio must be in (0, 1]; got ", options.ratio);
  const auto memory = std::make_shared<ErrorMemory>();
  const auto reduce_bucket = [ratio = options.ratio, where, memory](const GradientBucket& bucket,
                                                                    CommunicationStream& stream) {
    RINGRAD_CHECK(bucket.gradients.numel() <= std::numeric_limits<std::int32_t>::max(), ValueError,
                  where, "top_k_compression: a bucket must hold less than 2^31 elements; got ",
                  bucket.gradients.numel());
    const auto average_chosen = [=, &bucket](Communicator& comm) {
      const Tensor& gradients = bucket.gradients;
      if (gradients.numel() == 0) return;
      const Tensor left = memory->left_of(bucket, where);
      kernels::add_(left, gradients, 1, where);
      if (left.dtype() == DType::float64)
        reduce<double>(gradients, left, ratio, comm, where);
      else
        reduce<float>(gradients, left, ratio, comm, where);
    };
    return stream.run(concat("bucket ", bucket.index, " by top-k"), average_chosen, where);
  };
  return hook_with_state(memory, reduce_bucket);
}

}  // namespace ringrad
