// A fixture for tests that need a GPU, real or simulated: skips them where there is none. After a
// test the allocator caches as before it.

#pragma once

#include <gtest/gtest.h>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/tests/num_gpus.h"

namespace ringrad::testing {

class NeedsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() < 1) GTEST_SKIP() << "no GPU";
    was_caching_ = is_cuda_caching();
  }
  void TearDown() override {
    if (num_gpus() > 0) set_cuda_caching(was_caching_);
  }

  /// Skips the test unless there are two GPUs.
  static bool has_two() { return num_gpus() >= 2; }

  const Device gpu{DeviceType::cuda, 0};
  const Device other_gpu{DeviceType::cuda, 1};

 private:
  bool was_caching_ = false;
};

}  // namespace ringrad::testing
