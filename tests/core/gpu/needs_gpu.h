// A fixture for tests that need a GPU, real or simulated: skips them where there is none.

#pragma once

#include <gtest/gtest.h>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/tests/num_gpus.h"

namespace ringrad::testing {

class NeedsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() < 1) GTEST_SKIP() << "no GPU";
  }

  /// Skips the test unless there are two GPUs.
  static bool has_two() { return num_gpus() >= 2; }

  const Device gpu{DeviceType::cuda, 0};
  const Device other_gpu{DeviceType::cuda, 1};
};

}  // namespace ringrad::testing
