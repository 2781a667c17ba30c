#include "ringrad/parallel/comm/memory/shared_heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>

#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Random;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// True if the body returns true in a process of its own.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(SharedHeapTest, ProcessesSeeEachOthersWrites) {
  SharedHeap heap;
  std::byte* p = heap.allocate(3 * kMiB);
  std::memset(p, 7, 3 * kMiB);
  const std::ptrdiff_t offset = p - heap.memory().begin();
  EXPECT_TRUE(in_child([&] {
    const auto view = SharedHeap::open(heap.name());
    std::byte* q = view->begin() + offset;
    const bool good = q != p && q[3 * kMiB - 1] == std::byte{7};
    std::memset(q, 9, 3 * kMiB);
    return good;
  }));
  EXPECT_EQ(p[0], std::byte{9});
  EXPECT_EQ(p[3 * kMiB - 1], std::byte{9});
}

TEST(SharedHeapTest, BlocksDoNotOverlapAndAreUsedAgain) {
  Random random(1);
  SharedHeap heap(64 * kMiB);
  std::map<std::byte*, std::pair<std::size_t, std::byte>> live;
  for (int i = 0; i < 2000; ++i) {
    if (!live.empty() && (live.size() > 20 || random.chance(0.4))) {
      const auto victim =
          std::next(live.begin(), random.integer(0, static_cast<std::int64_t>(live.size())));
      const auto [bytes, value] = victim->second;
      for (std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1})
        ASSERT_EQ(victim->first[at], value);
      heap.release(victim->first);
      live.erase(victim);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(random.integer(1, 100'000));
    std::byte* p = heap.allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 128, 0u);
    ASSERT_TRUE(heap.memory().contains(p) && heap.memory().contains(p + bytes - 1));
    std::memset(p, i, bytes);
    ASSERT_TRUE(live.emplace(p, std::pair(bytes, std::byte(i))).second);
  }
  for (const auto& [p, rest] : live) heap.release(p);
  heap.release(heap.allocate(63 * kMiB));  // all blocks have merged
}

TEST(SharedHeapTest, RefusesMoreThanThereIs) {
  SharedHeap heap(kMiB);
  expect_throws<OutOfMemoryError>([&] { heap.allocate(2 * kMiB); }, "must be free in one piece");
  expect_throws<OutOfMemoryError>([&] { heap.allocate(~std::size_t{0}); },
                                  "must be free in one piece");
  EXPECT_NE(heap.allocate(0), heap.allocate(0));
}

TEST(SharedHeapTest, OpensOnlyTheHeapThatWasNamed) {
  std::string name;
  {
    const SharedHeap heap(kMiB);
    name = heap.name();
    std::string other = name;
    other.back() = other.back() == '0' ? '1' : '0';
    expect_throws<CollectiveError>([&] { SharedHeap::open(other); },
                                   "must have the heap that was named");
  }
  expect_throws<CollectiveError>([&] { SharedHeap::open(name); }, "shared heap: process");
  expect_throws<CollectiveError>([&] { SharedHeap::open("nonsense"); },
                                 "its name must be what name() gave");
  expect_throws<CollectiveError>([&] { SharedHeap::open("999999999 3 4096 x"); },
                                 "must live on this machine and be of this user");
}

TEST(SharedHeapTest, AForkedChildThatReleasesWaitsForNoThread) {
  SharedHeap heap(kMiB);
  std::byte* const place = heap.allocate(64);
  const std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) heap.release(heap.allocate(64));
  });
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(in_child([&] {
      alarm(20);
      heap.release(place);
      return true;
    }));
}

// Growing past the limit sends SIGXFSZ, which ends a process without a word.
TEST(SharedHeapTest, ALimitOnTheSizeOfFilesIsNamed) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{kMiB, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_NO_THROW(SharedHeap heap(kMiB));
  expect_throws<OutOfMemoryError>(
      [] { SharedHeap heap(kMiB + 1); },
      "shared heap: the limit on the size of files must be at least 1048577 bytes (set it by "
      "`ulimit -f unlimited`, or make ProcessGroupOptions::heap_bytes smaller); got RLIMIT_FSIZE "
      "of 1048576");
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(SharedHeapTest, IsFoundInEveryLocale) {
  const testing::ForeignNumbers guard;
  SharedHeap heap;
  EXPECT_EQ(SharedHeap::open(heap.name())->bytes(), heap.memory().bytes());
}

}  // namespace
}  // namespace ringrad
