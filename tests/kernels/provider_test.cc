#include "kernels/provider.h"

#include <gtest/gtest.h>

#include "core/stream.h"
#include "kernels/shared_gpu.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

class ProviderTest : public ::testing::Test {
 protected:
  ~ProviderTest() override { set_kernel_provider("all", KernelProvider::native); }
};

TEST_F(ProviderTest, EachOperationHasOneOfItsOwn) {
  set_kernel_provider("all", KernelProvider::native);
  for (const char* operation : {"matmul", "conv2d", "batch_norm", "all"})
    EXPECT_EQ(kernel_provider(operation), KernelProvider::native);
}

TEST_F(ProviderTest, RefusesOperationsWithoutAChoice) {
  for (const char* operation : {"", "softmax", "Matmul", "matmul "}) {
    expect_throws<ValueError>([&] { set_kernel_provider(operation, KernelProvider::native); },
                              "the operation must be matmul, conv2d, batch_norm or all");
    expect_throws<ValueError>([&] { kernel_provider(operation); }, "the operation must be matmul");
  }
}

TEST_F(ProviderTest, SaysWhyTheVendorsKernelsAreNotThere) {
  if (!is_cuda_simulated()) GTEST_SKIP() << "they may be";
  expect_throws<ValueError>(
      [] { set_kernel_provider("matmul", KernelProvider::vendor); },
      "the vendor's kernels for matmul must be there; got simulated GPUs, which run our own");
  EXPECT_EQ(kernel_provider("matmul"), KernelProvider::native);
}

TEST_F(ProviderTest, OfTheVendorsKernelsBatchNormNeedsAGpuOfItsOwn) {
  using kernels::Provided;
  for (const Provided operation : {Provided::matmul, Provided::conv2d, Provided::batch_norm})
    EXPECT_TRUE(kernels::may_use_vendor(operation, /*is_shared=*/false));
  EXPECT_TRUE(kernels::may_use_vendor(Provided::matmul, /*is_shared=*/true));
  EXPECT_TRUE(kernels::may_use_vendor(Provided::conv2d, /*is_shared=*/true));
  EXPECT_FALSE(kernels::may_use_vendor(Provided::batch_norm, /*is_shared=*/true));
}

TEST_F(ProviderTest, AGpuIsSharedUntilTheLastOneHasLeft) {
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
