// Linked into every test program that also runs on other devices, whatever else the program uses.

#include <gtest/gtest.h>

#include <cstdlib>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/tests/num_gpus.h"

namespace ringrad::testing {
namespace {

// Makes the device under test the main thread's default device. Tests are skipped if the device
// does not exist, and fail if it exists but cannot be used.
class DeviceUnderTest : public ::testing::EmptyTestEventListener {
 public:
  explicit DeviceUnderTest(Device device) : device_(device) {}

  void OnTestStart(const ::testing::TestInfo&) override {
    try {
      if (device_.is_cuda() && device_.index >= num_gpus())
        GTEST_SKIP() << "there is no " << device_;
    } catch (const DeviceError& error) {
      FAIL() << error.what();
    }
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
