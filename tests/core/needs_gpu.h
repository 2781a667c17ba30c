// A fixture for tests of GPUs: skipped where there is none, real or simulated.

#pragma once

#include <gtest/gtest.h>

#include "core/stream.h"

namespace ringrad::testing {

class NeedsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() < 1) GTEST_SKIP() << "no GPU";
  }

  /// Skips the test unless there are two.
  static bool has_two() { return num_cuda_devices() >= 2; }

  const Device gpu{DeviceType::cuda, 0};
  const Device other_gpu{DeviceType::cuda, 1};
};

}  // namespace ringrad::testing
