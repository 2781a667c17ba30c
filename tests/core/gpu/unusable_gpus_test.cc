#include "ringrad/core/gpu/unusable_gpus.h"

#include <gtest/gtest.h>

#include "ringrad/core/gpu/stream.h"

namespace ringrad {
namespace {

GpuFacts nothing() {
  GpuFacts facts;
  facts.error = "cudaErrorNoDevice";
  facts.runtime_version = 13000;
  return facts;
}

GpuFacts with_device() {
  GpuFacts facts = nothing();
  facts.seen = "/dev/nvidia0";
  facts.driver_version = 13000;
  return facts;
}

TEST(UnusableGpusTest, AreNoneWhereThereAreNoGpus) {
  EXPECT_EQ(unusable_gpus(nothing()), "");
  GpuFacts driver_only = nothing();  // as in many containers
  driver_only.error = "cudaErrorInsufficientDriver";
  driver_only.driver_version = 12040;
  EXPECT_EQ(unusable_gpus(driver_only), "");
}

TEST(UnusableGpusTest, AreNoneWhereTheyCanBeUsed) {
  GpuFacts facts = with_device();
  facts.count = 1;
  facts.error = "cudaSuccess";
  EXPECT_EQ(unusable_gpus(facts), "");
}

TEST(UnusableGpusTest, NameADriverThatIsOlderThanTheRuntime) {
  GpuFacts facts = with_device();
  facts.error = "cudaErrorInsufficientDriver";
  facts.driver_version = 12040;
  EXPECT_EQ(unusable_gpus(facts),
            "/dev/nvidia0 is there, but CUDA's runtime 13.0 gets cudaErrorInsufficientDriver from "
            "a driver for CUDA 12.4, which is too old");
  facts.hidden = true;  // too old a driver is an error even if GPUs are hidden
  EXPECT_NE(unusable_gpus(facts), "");
}

TEST(UnusableGpusTest, NameADriverThatIsNotThere) {
  GpuFacts facts = with_device();
  facts.error = "cudaErrorInsufficientDriver";
  facts.driver_version = 0;
  EXPECT_EQ(unusable_gpus(facts),
            "/dev/nvidia0 is there, but CUDA's runtime 13.0 gets cudaErrorInsufficientDriver from "
            "no driver library");
}

TEST(UnusableGpusTest, NameEveryOtherFailureToo) {
  GpuFacts facts = with_device();
  EXPECT_EQ(unusable_gpus(facts),
            "/dev/nvidia0 is there, but CUDA's runtime 13.0 gets cudaErrorNoDevice from a driver "
            "for CUDA 13.0");
  facts.error = "cudaErrorSystemNotReady";
  EXPECT_NE(unusable_gpus(facts), "");
  facts.error = "cudaSuccess";
  EXPECT_NE(unusable_gpus(facts).find("gets no GPU from"), std::string::npos);
}

TEST(UnusableGpusTest, AreNoneWhenTheUserHidesThem) {
  GpuFacts facts = with_device();
  facts.hidden = true;
  EXPECT_EQ(unusable_gpus(facts), "");
  facts.error = "cudaErrorSystemDriverMismatch";
  EXPECT_NE(unusable_gpus(facts), "");

  for (const char* value : {"", "-1", "NoDevFiles", "-1,0"})
    EXPECT_TRUE(hides_gpus(value)) << value;
  for (const char* value : {"0", "1,0", "GPU-8932f937", "MIG-b2c0"})
    EXPECT_FALSE(hides_gpus(value)) << value;
  EXPECT_FALSE(hides_gpus(nullptr));
}

TEST(UnusableGpusTest, OfThisMachineAreNoneIfItHasSome) {
  EXPECT_TRUE(num_cuda_devices() == 0 || unusable_gpus().empty()) << unusable_gpus();
}

}  // namespace
}  // namespace ringrad
