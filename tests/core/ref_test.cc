#include "ringrad/core/ref.h"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringrad {
namespace {

struct Counted : RefCounted, Pooled {
  explicit Counted(int& alive) : alive(alive) { ++alive; }
  ~Counted() { --alive; }
  int& alive;
};

TEST(RefTest, DeletesWithTheLastReference) {
  int alive = 0;
  auto a = make_ref<Counted>(alive);
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(a->unique());
  {
    Ref<Counted> b = a;
    EXPECT_FALSE(a->unique());
    a = nullptr;
    EXPECT_EQ(alive, 1);
    EXPECT_TRUE(b->unique());
  }
  EXPECT_EQ(alive, 0);
}

TEST(RefTest, MovingCountsNothing) {
  int alive = 0;
  auto a = make_ref<Counted>(alive);
  Ref<Counted> b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_TRUE(b->unique());
  a = std::move(b);
  EXPECT_TRUE(a->unique());
  EXPECT_EQ(alive, 1);
}

TEST(RefTest, AssigningReleasesTheOldObject) {
  int first = 0, second = 0;
  auto a = make_ref<Counted>(first);
  auto b = make_ref<Counted>(second);
  a = b;
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(a, b);
}

TEST(RefTest, SurvivesAssignmentToItself) {
  int alive = 0;
  auto a = make_ref<Counted>(alive);
  const auto& same = a;
  a = same;
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(a->unique());
}

TEST(RefTest, LeakAndAdoptHandTheReferenceOver) {
  int alive = 0;
  auto a = make_ref<Counted>(alive);
  Counted* raw = a.leak();
  EXPECT_FALSE(a);
  EXPECT_EQ(alive, 1);
  a = Ref<Counted>::adopt(raw);
  auto b = Ref<Counted>::share(raw);
  EXPECT_FALSE(a->unique());
  EXPECT_FALSE(Ref<Counted>::share(nullptr));
  a = b = nullptr;
  EXPECT_EQ(alive, 0);
}

// Threads copy and drop references to one object, and the last thread deletes it. ThreadSanitizer
// checks that the deletion is ordered after all other uses.
TEST(RefTest, ThreadsMayShareAnObject) {
  for (int round = 0; round < 50; ++round) {
    int alive = 0;
    auto object = make_ref<Counted>(alive);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([mine = object] {
        for (int i = 0; i < 100; ++i) {
          Ref<Counted> copy = mine;
          EXPECT_EQ(copy->alive, 1);
        }
      });
    object = nullptr;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(alive, 0);
  }
}

TEST(RefTest, IsOnePointer) { static_assert(sizeof(Ref<Counted>) == sizeof(void*)); }

}  // namespace
}  // namespace ringrad
