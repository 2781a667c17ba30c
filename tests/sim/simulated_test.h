// SimulatedTest: a test that begins with new simulated devices.

#pragma once

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/simulator.h"

namespace ringrad::sim {

class SimulatedTest : public ::testing::Test {
 protected:
  SimulatedTest() { reset(); }

  template <class T = int>
  static T* allocate(std::size_t count) {
    T* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, count * sizeof(T)), cudaSuccess) << last_report();
    return p;
  }
  /// Memory of zeros, already written when this returns.
  template <class T = int>
  static T* allocate_zeros(std::size_t count) {
    return upload(std::vector<T>(count));
  }
  template <class T>
  static T* upload(const std::vector<T>& values) {
    T* p = allocate<T>(values.size());
    EXPECT_EQ(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess)
        << last_report();
    return p;
  }
  template <class T>
  static std::vector<T> download(const T* p, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess)
        << last_report();
    return values;
  }
  /// A stream that does not wait for the default stream.
  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static cudaEvent_t make_event() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    return event;
  }
};

}  // namespace ringrad::sim
