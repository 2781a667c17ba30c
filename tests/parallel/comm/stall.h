// Stops a stream until the test releases it.

#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "ringrad/core/base/device.h"
#include "ringrad/tests/parallel/comm/gpu/wait_for_word.h"

namespace ringrad::testing {

class Stall {
 public:
  Stall() {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, sizeof(std::uint64_t), cudaHostAllocPortable), cudaSuccess);
    word_ = new (memory) std::uint64_t(0);
  }
  ~Stall() { cudaFreeHost(word_); }
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;

  /// Later work on the default device's current stream waits for end(), at most 5 s.
  void begin() { wait_for_word(default_device(), word_); }
  void end() { std::atomic_ref(*word_).store(1); }

 private:
  std::uint64_t* word_;
};

}  // namespace ringrad::testing
