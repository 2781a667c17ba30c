// A fixture for tests of GPUs: skipped where there is none, real or simulated.

#pragma once

#include <gtest/gtest.h>

#include "core/stream.h"
#include "tests/num_gpus.h"

namespace ringrad::testing {

class NeedsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() < 1) GTEST_SKIP() << "no GPU";
  }

  /// Skips the test unless there are two.
  static bool has_two() { return num_gpus() >= 2; }

  const Device gpu{DeviceType::cuda, 0};
  const Device other_gpu{DeviceType::cuda, 1};
};

}  // namespace ringrad::testing
