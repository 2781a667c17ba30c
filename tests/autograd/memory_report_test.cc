#include <gtest/gtest.h>

#include "autograd/elementwise.h"
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

}  // namespace
}  // namespace ringrad
