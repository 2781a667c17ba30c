#include <gtest/gtest.h>

#include "autograd/elementwise.h"
#include "autograd/matmul.h"
#include "core/allocator_cuda.h"
#include "tests/core/needs_gpu.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

class MemoryReportTest : public testing::NeedsGpu {};

TEST_F(MemoryReportTest, NamesTheOperationWhoseResultHoldsTheMemory) {
  const Tensor x = ones({1 << 20}, {.device = gpu, .requires_grad = true});
  const Tensor y = relu(x);
  EXPECT_NE(memory_report(gpu).find("4194304 bytes in 1 block by relu at memory_report_test.cc:"),
            std::string::npos)
      << memory_report(gpu);
}

// The gradient of x is made of the weight, and that of the weight of x.
TEST_F(MemoryReportTest, AProductHoldsAFactorOnlyForTheOthersGradient) {
  for (const bool x_learns : {false, true})
    for (const bool weight_learns : {false, true}) {
      const Tensor x = ones({256, 1024}, {.device = gpu, .requires_grad = x_learns});
      const Tensor weight = ones({512, 1024}, {.device = gpu, .requires_grad = weight_learns});
      const Tensor y = linear(-x, -weight);  // which nobody else holds
      const std::string report = memory_report(gpu);
      // neg names the factors that learn; only they are not needed if the other does not.
      EXPECT_EQ(report.find("by neg") != std::string::npos, x_learns && weight_learns) << report;
    }
}

}  // namespace
}  // namespace ringrad
