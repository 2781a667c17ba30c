#include "ringrad/sim/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace ringrad::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(MemoryTest, AddressesAreAlignedAsInCuda) {
  Memory memory(1, kMiB);
  for (std::size_t bytes : {1, 3, 255, 256, 257, 4095, 4096, 4097})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.allocate(0, bytes)) % 256, 0u) << bytes;
}

TEST(MemoryTest, NoAddressIsUsedTwice) {
  Memory memory(1, kMiB);
  void* first = memory.allocate(0, 100);
  EXPECT_TRUE(memory.release(first));
  EXPECT_NE(memory.allocate(0, 100), first);
}

TEST(MemoryTest, AllocationsKnowTheirDeviceAndDoNotOverlap) {
  std::mt19937 random(1);
  Memory memory(3, 64 * kMiB);
  struct Taken {
    std::byte* begin;
    std::size_t bytes;
    int device;
  };
  std::vector<Taken> taken;
  for (int i = 0; i < 300; ++i) {
    const int device = static_cast<int>(random() % 3);
    const std::size_t bytes = 1 + random() % 20'000;
    auto* p = static_cast<std::byte*>(memory.allocate(device, bytes));
    ASSERT_NE(p, nullptr);
    for (const Taken& other : taken)
      EXPECT_TRUE(p + bytes <= other.begin || other.begin + other.bytes <= p);
    taken.push_back({p, bytes, device});
    if (i % 3 == 0) {
      EXPECT_TRUE(memory.release(taken.front().begin));
      taken.erase(taken.begin());
    }
  }
  EXPECT_EQ(memory.live_allocations().size(), taken.size());
  for (const Taken& own : taken) {
    EXPECT_EQ(memory.device_of(own.begin + own.bytes - 1), own.device);
    EXPECT_TRUE(memory.find(own.begin + own.bytes - 1)->live);
    EXPECT_EQ(memory.complaint(own.begin, own.bytes), "");
    EXPECT_NE(memory.complaint(own.begin, own.bytes + 1), "");
  }
}

TEST(MemoryTest, EveryDeviceHasItsOwnLimit) {
  Memory memory(2, kMiB);
  EXPECT_EQ(memory.allocate(0, kMiB + 1), nullptr);
  EXPECT_EQ(memory.allocate(0, ~std::size_t{0}), nullptr);
  void* all = memory.allocate(0, kMiB);
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(memory.bytes_in_use(0), kMiB);
  EXPECT_EQ(memory.allocate(0, 1), nullptr);
  EXPECT_NE(memory.allocate(1, kMiB), nullptr);
  EXPECT_TRUE(memory.release(all));
  EXPECT_EQ(memory.bytes_in_use(0), 0u);
  EXPECT_NE(memory.allocate(0, kMiB), nullptr);
}

TEST(MemoryTest, ReleasesOnlyWhatItGave) {
  Memory memory(1, kMiB);
  auto* p = static_cast<std::byte*>(memory.allocate(0, 100));
  EXPECT_FALSE(memory.release(p + 1));
  EXPECT_FALSE(memory.release(&memory));
  EXPECT_TRUE(memory.release(p));
  EXPECT_FALSE(memory.release(p));
}

TEST(MemoryTest, SaysWhereAnAddressLies) {
  Memory memory(2, kMiB);
  auto* p = static_cast<std::byte*>(memory.allocate(1, 400));
  const auto ends_with = [&](const void* address, const std::string& ending) {
    const std::string text = memory.describe(address);
    EXPECT_TRUE(text.ends_with(ending)) << text;
  };
  ends_with(p + 5, ", in an allocation of 400 bytes on device 1");
  ends_with(p + 412, ", 12 bytes after the end of an allocation of 400 bytes on device 1");
  ends_with(p - 8, ", 8 bytes before an allocation of 400 bytes on device 1");
  ends_with(&memory, ", in no allocation");
  memory.release(p);
  ends_with(p + 5, ", in a freed allocation of 400 bytes on device 1");
}

}  // namespace
}  // namespace ringrad::sim
