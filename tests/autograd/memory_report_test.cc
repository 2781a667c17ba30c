#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/testing.h"

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

// The gradient of x needs the weight, and that of the weight needs x.
TEST_F(MemoryReportTest, AProductHoldsAFactorOnlyForTheOthersGradient) {
  for (const bool x_learns : {false, true})
    for (const bool weight_learns : {false, true}) {
      const Tensor x = ones({256, 1024}, {.device = gpu, .requires_grad = x_learns});
      const Tensor weight = ones({512, 1024}, {.device = gpu, .requires_grad = weight_learns});
      const Tensor y = linear(-x, -weight);  // temporaries: only y holds them
      const std::string report = memory_report(gpu);
      // neg names only the factors that learn. Such a factor is not needed if the other one does
      // not learn.
      EXPECT_EQ(report.find("by neg") != std::string::npos, x_learns && weight_learns) << report;
    }
}

}  // namespace
}  // namespace ringrad
