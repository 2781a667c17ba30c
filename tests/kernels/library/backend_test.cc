#include "ringrad/kernels/library/backend.h"

#include <gtest/gtest.h>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

class KernelBackendTest : public ::testing::Test {
 protected:
  ~KernelBackendTest() override { set_kernel_backend("all", KernelBackend::native); }
};

TEST_F(KernelBackendTest, EachOperationHasOneOfItsOwn) {
  set_kernel_backend("all", KernelBackend::native);
  for (const char* operation : {"matmul", "conv2d", "batch_norm", "attention", "all"})
    EXPECT_EQ(kernel_backend(operation), KernelBackend::native);
}

TEST_F(KernelBackendTest, RefusesOperationsWithoutAChoice) {
  for (const char* operation : {"", "softmax", "Matmul", "matmul "}) {
    expect_throws<ValueError>([&] { set_kernel_backend(operation, KernelBackend::native); },
                              "the operation must be matmul, conv2d, batch_norm, attention or all");
    expect_throws<ValueError>([&] { kernel_backend(operation); }, "the operation must be matmul");
  }
}

TEST_F(KernelBackendTest, SaysWhyTheVendorsKernelsAreNotThere) {
  if (!is_cuda_simulated()) GTEST_SKIP() << "they may be";
  expect_throws<ValueError>(
      [] { set_kernel_backend("matmul", KernelBackend::vendor); },
      "the vendor's kernels for matmul must be there; got simulated GPUs, which run our own");
  EXPECT_EQ(kernel_backend("matmul"), KernelBackend::native);
}

TEST_F(KernelBackendTest, OfTheVendorsKernelsBatchNormAndAttentionNeedAGpuOfTheirOwn) {
  using kernels::Provided;
  for (const Provided operation :
       {Provided::matmul, Provided::conv2d, Provided::batch_norm, Provided::attention})
    EXPECT_TRUE(kernels::may_use_vendor(operation, /*is_shared=*/false));
  EXPECT_TRUE(kernels::may_use_vendor(Provided::matmul, /*is_shared=*/true));
  EXPECT_TRUE(kernels::may_use_vendor(Provided::conv2d, /*is_shared=*/true));
  EXPECT_FALSE(kernels::may_use_vendor(Provided::batch_norm, /*is_shared=*/true));
  EXPECT_FALSE(kernels::may_use_vendor(Provided::attention, /*is_shared=*/true));
}

TEST_F(KernelBackendTest, AGpuIsSharedUntilTheLastOneHasLeft) {
  const Device gpu("cuda:1"), other("cuda:2");
  EXPECT_FALSE(is_shared(gpu));
  {
    const SharedGpu first(gpu);
    {
      const SharedGpu second(gpu);
      EXPECT_TRUE(is_shared(gpu));
    }
    EXPECT_TRUE(is_shared(gpu));
    EXPECT_FALSE(is_shared(other));
    EXPECT_FALSE(is_shared("cpu:1"));
  }
  EXPECT_FALSE(is_shared(gpu));
}

}  // namespace
}  // namespace ringrad
