#include "ringrad/core/base/device.h"

#include <gtest/gtest.h>

#include <thread>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(DeviceTest, ParsesNames) {
  EXPECT_EQ(Device("cpu"), Device());
  EXPECT_EQ(Device("cpu:0"), Device());
  EXPECT_EQ(Device("cpu:3"), Device(DeviceType::cpu, 3));
  EXPECT_EQ(Device("cpu:1023").index, 1023);
  EXPECT_EQ(Device("cuda"), Device(DeviceType::cuda, 0));
  EXPECT_EQ(Device("cuda:7"), Device(DeviceType::cuda, 7));
  EXPECT_EQ(Device("cuda:63").index, 63);
}

TEST(DeviceTest, PrintsWhatItParses) {
  for (const int index : {0, 1, 77, kMaxCpuDevices - 1}) {
    const Device device(DeviceType::cpu, index);
    EXPECT_EQ(Device(std::string_view(concat(device))), device);
  }
  EXPECT_EQ(concat(Device("cuda:5")), "cuda:5");
}

TEST(DeviceTest, RefusesOtherNames) {
  for (const char* text :
       {"", "c", "cpu:", "cpu:x", "cpu:1x", "cpu: 1", "cpu1", "cpu;1", "CPU", "gpu", "cpu:-1",
        "cpu:1024", "cpu:99999999999999999999", "cpu:1.0", "cpu:1:2", "cuda:", "cuda:64", "cudax"})
    expect_throws<DeviceError>([&] { Device{text}; },
                               concat("device: must be \"cpu\", \"cuda\", \"cpu:N\" with N below "
                                      "1024 or \"cuda:N\" with N below "
                                      "64; got \"",
                                      text, '"'));
}

TEST(DeviceTest, RefusesIndicesOutOfRange) {
  for (const int index : {-1, kMaxCpuDevices, 65536})
    expect_throws<DeviceError>([&] { Device(DeviceType::cpu, index); },
                               concat("device: index must be in [0, 1024); got ", index));
  expect_throws<DeviceError>([&] { Device(DeviceType::cuda, 64); },
                             "device: index must be in [0, 64); got 64");
}

TEST(DeviceTest, TheDefaultDeviceIsTheThreadsOwn) {
  const Device before = default_device();
  {
    const DefaultDeviceGuard guard("cpu:3");
    EXPECT_EQ(default_device(), Device("cpu:3"));
    std::thread([] { EXPECT_EQ(default_device(), Device()); }).join();
  }
  EXPECT_EQ(default_device(), before);
}

TEST(DeviceTest, LogicalDevicesDoNotMix) {
  const Where here = Where::current();
  EXPECT_NO_THROW(check_same_device("add", "cpu:1", "cpu:1", here));
  expect_throws<DeviceError>([&] { check_same_device("add", "cpu:0", "cpu:1", here); },
                             "add: tensors must be on one device; got cpu:0 and cpu:1");
}

}  // namespace
}  // namespace ringrad
