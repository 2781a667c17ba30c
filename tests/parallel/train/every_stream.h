// Properties of gradients that must hold on every device and every stream that carries them.

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"

namespace ringrad::testing {

/// Calls body(communicator, overlap) on ranks of the CPU and of GPUs (ranks_on_devices.h): first
/// they communicate on the thread or stream that computes, then on another one.
template <class Body>
void on_every_stream(int world_size, Body body) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    SCOPED_TRACE(overlap == Overlap::always ? "with overlap" : "without overlap");
    run_ranks_on_devices(world_size, [&](Communicator& comm) { body(comm, overlap); });
  }
}

/// A bucket of one parameter, and a hook's result for it on this rank. The stream and the memory
/// stay the same from pass to pass, as in a reducer.
class OneBucket {
 public:
  OneBucket(Communicator& comm, Overlap overlap, const Shape& shape, CommunicationHook hook,
            DType dtype = DType::float32)
      : hook_(std::move(hook)),
        stream_(comm, default_device(), overlap == Overlap::always),
        bucket_{.gradients = zeros({shape.numel()}, {.dtype = dtype}),
                .num_buckets = 1,
                .parameters = {{"weight", shape, 0}}} {}

  /// The average, on the CPU.
  template <class T>
  std::vector<T> reduce(const std::vector<T>& gradients) {
    const Tensor own = from_values<T>(gradients, bucket_.gradients.shape());
    kernels::copy_(bucket_.gradients, own);
    hook_(bucket_, stream_).wait();
    return bucket_.gradients.to_vector<T>();
  }

 private:
  const CommunicationHook hook_;
  CommunicationStream stream_;
  const GradientBucket bucket_;
};

/// True if all ranks hold the same bytes.
template <class T>
bool same_on_all_ranks(Communicator& comm, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  const Options on_host{.dtype = DType::uint8, .device = Device()};
  const Tensor least = empty({bytes}, on_host), most = empty({bytes}, on_host);
  std::memcpy(least.raw_data(), values.data(), static_cast<std::size_t>(bytes));
  std::memcpy(most.raw_data(), values.data(), static_cast<std::size_t>(bytes));
  comm.all_reduce(least, ReduceOp::min);
  comm.all_reduce(most, ReduceOp::max);
  return least.to_vector<int>() == most.to_vector<int>();
}

}  // namespace ringrad::testing
