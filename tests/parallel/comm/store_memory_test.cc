// The store's server where an allocation of its thread fails.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>
#include <thread>

#include "parallel/comm/store.h"
#include "parallel/comm/store_server.h"

namespace {

thread_local bool is_own_thread = false;  // true on the test's; false on the server's
std::atomic<int> num_left_before_fault =
    -1;  // allocations of the server's thread; none fails below 0

bool fails_now() {
  return !is_own_thread && num_left_before_fault.load() >= 0 && num_left_before_fault-- == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = fails_now() ? nullptr : std::malloc(size);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// Asio allocates its handlers by it.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  void* memory = nullptr;
  return fails_now() || posix_memalign(&memory, alignment, size) != 0 ? nullptr : memory;
}

namespace ringrad {
namespace {

using std::chrono::milliseconds;

std::ptrdiff_t num_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// Two clients come and go, one of which waits for the other. They may be turned away.
void use_store(const StoreAddress& address) {
  try {
    std::thread waiting([&] {
      is_own_thread = true;
      try {
        Store(address, milliseconds(300)).get("second");
      } catch (const CollectiveError&) {
      }
    });
    try {
      Store store(address, milliseconds(300));
      store.set("first", "1");
      store.set("second", "2");
    } catch (const CollectiveError&) {
    }
    waiting.join();
  } catch (const CollectiveError&) {
  }
}

TEST(StoreMemoryTest, WhicheverAllocationFailsTheServerGoesOn) {
  is_own_thread = true;
  int num_faults = 0;
  for (bool has_failed = true; has_failed; ++num_faults) {
    SCOPED_TRACE(num_faults);
    const StoreServer server;
    const std::ptrdiff_t num_before = num_descriptors();
    num_left_before_fault = num_faults;
    use_store(server.address());
    has_failed = num_left_before_fault.exchange(-1) < 0;

    Store store(server.address());
    store.set("third", "3");
    EXPECT_EQ(store.find("third"), "3");
    // No connection is left that nobody serves: there are the two ends of the store's.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (num_descriptors() > num_before + 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    ASSERT_EQ(num_descriptors(), num_before + 2);
  }
  EXPECT_GT(num_faults, 20);
}

}  // namespace
}  // namespace ringrad
