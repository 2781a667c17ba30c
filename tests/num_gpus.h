// The number of GPUs that a test can use. Every test that skips itself without a GPU must ask here.
//
//     if (testing::num_gpus() < 2) GTEST_SKIP() << "one GPU only";

#pragma once

namespace ringrad::testing {

/// num_cuda_devices(). On a machine with unusable GPUs, a test that calls this fails rather than
/// being skipped.
///
/// Throws: DeviceError with the reason if GPUs exist but cannot be used
int num_gpus();

}  // namespace ringrad::testing
