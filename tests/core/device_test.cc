#include "core/device.h"

#include <gtest/gtest.h>

#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(DeviceTest, ParsesNames) {
  EXPECT_EQ(Device("cpu"), Device());
  EXPECT_EQ(Device("cpu:0"), Device());
  EXPECT_EQ(Device("cpu:3"), Device(DeviceType::cpu, 3));
  EXPECT_EQ(Device("cpu:1023").index, 1023);
}

TEST(DeviceTest, PrintsWhatItParses) {
  for (const int index : {0, 1, 77, kMaxCpuDevices - 1}) {
    const Device device(DeviceType::cpu, index);
    EXPECT_EQ(Device(std::string_view(concat(device))), device);
  }
}

TEST(DeviceTest, RefusesOtherNames) {
  for (const char* text :
       {"", "c", "cpu:", "cpu:x", "cpu:1x", "cpu: 1", "cpu1", "cpu;1", "CPU", "gpu", "cpu:-1",
        "cpu:1024", "cpu:99999999999999999999", "cpu:1.0", "cpu:1:2"})
    expect_throws<DeviceError>(
        [&] { Device{text}; },
        concat("device: must be \"cpu\" or \"cpu:N\" with N below 1024; got \"", text, '"'));
}

TEST(DeviceTest, RefusesIndicesOutOfRange) {
  for (const int index : {-1, kMaxCpuDevices, 65536})
    expect_throws<DeviceError>([&] { Device(DeviceType::cpu, index); },
                               concat("device: index must be in [0, 1024); got ", index));
}

TEST(DeviceTest, LogicalDevicesDoNotMix) {
  const Where here = Where::current();
  EXPECT_NO_THROW(check_same_device("add", "cpu:1", "cpu:1", here));
  expect_throws<DeviceError>([&] { check_same_device("add", "cpu:0", "cpu:1", here); },
                             "add: tensors must be on one device; got cpu:0 and cpu:1");
}

}  // namespace
}  // namespace ringrad
