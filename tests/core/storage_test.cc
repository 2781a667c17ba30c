#include "ringrad/core/storage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace ringrad {
namespace {

TEST(StorageTest, OwnsBytesOnADevice) {
  const auto storage = make_ref<Storage>(100u, Device("cpu:2"), Where::current());
  EXPECT_EQ(storage->bytes(), 100u);
  EXPECT_EQ(storage->device(), Device("cpu:2"));
  std::memset(storage->data(), 1, 100);
  EXPECT_FALSE(storage->whole());
}

TEST(StorageTest, KeepsTheOwnerOfForeignMemoryAlive) {
  auto memory = std::make_shared<std::vector<float>>(8);
  const std::weak_ptr<std::vector<float>> watch = memory;
  auto storage = make_ref<Storage>(memory->data(), 32u, Device(), memory);
  memory.reset();
  EXPECT_FALSE(watch.expired());
  storage = nullptr;
  EXPECT_TRUE(watch.expired());
}

TEST(StorageTest, ASliceKeepsTheWholeAlive) {
  auto whole = make_ref<Storage>(64u, Device("cpu:1"), Where::current());
  std::byte* const start = whole->data();
  const auto part = Storage::slice(whole, 16, 32);
  EXPECT_EQ(part->data(), start + 16);
  EXPECT_EQ(part->bytes(), 32u);
  EXPECT_EQ(part->device(), Device("cpu:1"));
  EXPECT_EQ(part->whole(), whole);
  whole = nullptr;
  std::memset(part->data(), 1, 32);  // AddressSanitizer objects if the whole is gone
}

TEST(StorageTest, ASliceThatMovesKeepsItsOldMemoryAliveAndItsVersion) {
  auto whole = make_ref<Storage>(64u, Device(), Where::current());
  const auto part = Storage::slice(whole, 16, 32);
  part->mark_changed(Where::current());
  const std::uint32_t version = part->version();
  std::byte* const old = part->data();
  const auto memory = make_ref<Storage>(32u, Device(), Where::current());
  part->move_to(memory);
  whole = nullptr;
  EXPECT_EQ(part->data(), memory->data());
  EXPECT_EQ(part->whole(), memory);
  EXPECT_EQ(part->version(), version);
  std::memset(old, 1, 32);  // AddressSanitizer objects if the old memory is gone
}

TEST(StorageTest, ASliceHasItsOwnVersion) {
  const auto whole = make_ref<Storage>(64u, Device(), Where::current());
  const auto left = Storage::slice(whole, 0, 32), right = Storage::slice(whole, 32, 32);
  left->mark_changed(Where::current());
  EXPECT_NE(left->version(), 0u);
  EXPECT_EQ(right->version(), 0u);
  EXPECT_EQ(whole->version(), 0u);
}

TEST(StorageTest, RemembersTheLineOfTheLatestChange) {
  const auto storage = make_ref<Storage>(4u, Device(), Where::current());
  storage->mark_changed(Where::current());
  const Where here = Where::current();
  storage->mark_changed(here);
  EXPECT_EQ(storage->change(), Storage::num_changes());
  EXPECT_EQ(storage->changed_at().line(), here.line());
}

TEST(StorageTest, SlicesStayInside) {
  const auto whole = make_ref<Storage>(64u, Device(), Where::current());
  EXPECT_NO_THROW(Storage::slice(whole, 64, 0));
  EXPECT_THROW(Storage::slice(whole, 60, 5), InternalError);
}

}  // namespace
}  // namespace ringrad
