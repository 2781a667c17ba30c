// Linked into every test program that also runs on other devices, whatever else it uses.

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/stream.h"

namespace ringrad::testing {
namespace {

// The device under test is the default one of the main thread; where there is none, tests are skipped.
class DeviceUnderTest : public ::testing::EmptyTestEventListener {
 public:
  explicit DeviceUnderTest(Device device) : device_(device) {}

  void OnTestStart(const ::testing::TestInfo&) override {
    if (device_.is_cuda() && device_.index >= num_cuda_devices())
      GTEST_SKIP() << "there is no " << device_;
    set_default_device(device_);
  }

 private:
  Device device_;
};

const bool device_is_set = [] {
  if (const char* name = std::getenv("RINGRAD_TEST_DEVICE"))
    ::testing::UnitTest::GetInstance()->listeners().Append(new DeviceUnderTest(name));
  return true;
}();

}  // namespace
}  // namespace ringrad::testing
