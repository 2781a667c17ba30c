#include "ringrad/data/prefetcher.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/grad_mode.h"

namespace ringrad {
namespace {

using namespace std::chrono_literals;

Batch numbered(std::int64_t number) { return {{scalar_tensor(number)}}; }

std::int64_t number_of(const Batch& batch) { return batch.input().item<std::int64_t>(); }

// Takes all remaining batches; there must be `count`, and they must begin with `first`.
void expect_rest(Prefetcher& prefetcher, std::int64_t first, std::int64_t count) {
  for (std::int64_t number = first; number < first + count; ++number) {
    const auto batch = prefetcher.next();
    ASSERT_TRUE(batch.has_value()) << number;
    EXPECT_EQ(number_of(*batch), number);
  }
  EXPECT_FALSE(prefetcher.next().has_value());
  EXPECT_FALSE(prefetcher.next().has_value());
}

TEST(PrefetcherTest, HandsOutAllBatchesInOrder) {
  for (const std::int64_t count : {0, 1, 2, 7, 50})
    for (const int threads : {0, 1, 2, 5})
      for (const std::int64_t window : {1, 2, 100}) {
        Prefetcher prefetcher(count, numbered, threads, window);
        expect_rest(prefetcher, 0, count);
      }
}

TEST(PrefetcherTest, HandsOutInOrderWhatIsFinishedOutOfOrder) {
  const auto slow_if_even = [](std::int64_t number) {
    if (number % 2 == 0) std::this_thread::sleep_for(3ms);
    return numbered(number);
  };
  Prefetcher prefetcher(20, slow_if_even, 3, 6);
  expect_rest(prefetcher, 0, 20);
}

TEST(PrefetcherTest, MakesEachBatchOnce) {
  constexpr std::int64_t kCount = 200;
  std::vector<std::atomic<int>> made(kCount);
  const auto make = [&](std::int64_t number) {
    ++made[static_cast<std::size_t>(number)];
    return numbered(number);
  };
  Prefetcher prefetcher(kCount, make, 4, 8);
  expect_rest(prefetcher, 0, kCount);
  for (const auto& times : made) EXPECT_EQ(times, 1);
}

TEST(PrefetcherTest, WorksAheadToTheEndOfTheWindowAndNoFurther) {
  constexpr std::int64_t kWindow = 5;
  std::atomic<std::int64_t> begun = 0, asked = 0;
  const auto make = [&](std::int64_t number) {
    EXPECT_LT(number, asked + kWindow);
    ++begun;
    return numbered(number);
  };
  Prefetcher prefetcher(100, make, 2, kWindow);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  for (std::int64_t number = 0; number < 100; ++number) {
    const std::int64_t end = std::min<std::int64_t>(number + kWindow, 100);
    while (begun < end && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(begun, end);
    asked = number + 1;
    EXPECT_EQ(number_of(prefetcher.next().value()), number);
  }
  EXPECT_FALSE(prefetcher.next().has_value());
}

TEST(PrefetcherTest, ThreadsWorkAtTheSameTime) {
  std::atomic<int> working = 0;
  // Each of the first two fetches waits for the other.
  const auto make = [&](std::int64_t number) {
    ++working;
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (working < 2)
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("alone");
      else
        std::this_thread::yield();
    return numbered(number);
  };
  Prefetcher prefetcher(2, make, 2, 2);
  expect_rest(prefetcher, 0, 2);
}

TEST(PrefetcherTest, EndsWhenTheConsumerLeavesEarly) {
  for (const int threads : {0, 1, 4})
    for (std::int64_t taken = 0; taken < 6; ++taken) {
      std::atomic<int> begun = 0;
      {
        Prefetcher prefetcher(
            1'000'000,
            [&](std::int64_t number) {
              ++begun;
              return numbered(number);
            },
            threads, 3);
        for (std::int64_t number = 0; number < taken; ++number)
          EXPECT_EQ(number_of(prefetcher.next().value()), number);
      }
      EXPECT_LE(begun, taken + 3);
    }
}

TEST(PrefetcherTest, ThrowsWhereTheBatchWasDueAndEndsThere) {
  for (const int threads : {0, 1, 3})
    for (const std::int64_t bad : {0, 1, 5, 19}) {
      const auto make = [&](std::int64_t number) {
        if (number >= bad) throw std::runtime_error("batch " + std::to_string(number));
        return numbered(number);
      };
      Prefetcher prefetcher(20, make, threads, 4);
      for (std::int64_t number = 0; number < bad; ++number)
        EXPECT_EQ(number_of(prefetcher.next().value()), number);
      try {
        prefetcher.next();
        ADD_FAILURE() << "threw nothing";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "batch " + std::to_string(bad));
      }
      EXPECT_FALSE(prefetcher.next().has_value());
    }
}

TEST(PrefetcherTest, BeginsNothingAfterAnError) {
  std::atomic<std::int64_t> last = 0;
  const auto make = [&](std::int64_t number) -> Batch {
    last = number;
    if (number == 2) throw std::runtime_error("bad");
    return numbered(number);
  };
  Prefetcher prefetcher(1000, make, 1, 100);
  EXPECT_EQ(number_of(prefetcher.next().value()), 0);
  EXPECT_EQ(number_of(prefetcher.next().value()), 1);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
  EXPECT_EQ(last, 2);
}

TEST(PrefetcherTest, ThreadsWorkAsTheirConsumerWould) {
  const Device device(DeviceType::cpu, 1);
  const int team = omp_get_max_threads();
  const DefaultDeviceGuard guard(device);
  detail::grad_mode = false;
  omp_set_num_threads(6);
  const auto make = [&](std::int64_t number) {
    EXPECT_FALSE(grad_enabled());
    EXPECT_EQ(default_device(), device);
    EXPECT_EQ(omp_get_max_threads(), 3);
    return numbered(number);
  };
  Prefetcher prefetcher(10, make, 2, 2);
  expect_rest(prefetcher, 0, 10);
  omp_set_num_threads(team);
  detail::grad_mode = true;
}

TEST(PrefetcherTest, ThrowsIfTheSystemRefusesAThread) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers need the address space that this test takes away";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit few{pages * 4096 + (std::size_t{64} << 20), before.rlim_max};  // stacks take 8 MiB
  std::string message;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  try {
    Prefetcher(1000, numbered, 1000, 1000);
  } catch (const ValueError& error) {
    message = error.message();
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(message.starts_with(
      "loader: num_workers must be threads that the system can start; got 1000 and \""))
      << message;
}

}  // namespace
}  // namespace ringrad
