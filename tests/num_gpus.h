// How many GPUs a test can use: every test that skips itself without one asks here.
//
//     if (testing::num_gpus() < 2) GTEST_SKIP() << "one GPU only";

#pragma once

namespace ringrad::testing {

/// num_cuda_devices(). A test that calls it fails, rather than be skipped, on a machine with GPUs that cannot be
/// used.
///
/// Throws: DeviceError, which says why they cannot
int num_gpus();

}  // namespace ringrad::testing
