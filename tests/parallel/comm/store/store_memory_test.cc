// The store's server when an allocation of its thread fails.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>
#include <string>
#include <thread>

#include "ringrad/parallel/comm/store/store.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace {

thread_local bool is_own_thread = false;  // true on the test's thread, false on the server's
std::atomic<int> num_left_before_fault =
    -1;  // allocations of the server's thread; none fails below 0

bool fails_now() {
  return !is_own_thread && num_left_before_fault.load() >= 0 && num_left_before_fault-- == 0;
}

}  // namespace

// Not inlined: otherwise GCC warns that free() is called on the result of `new`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = fails_now() ? nullptr : std::malloc(size);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// Asio allocates its handlers with this function.
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

constexpr std::chrono::seconds kPatience(20);  // for events that need no time, on a busy machine

// Two clients come and go. The first waits for a value that the second sets. The server may turn
// them away. Returns false if the fault did not occur.
bool use_store(const StoreAddress& address) {
  std::string error_of_waiting;
  std::jthread waiting([&] {
    is_own_thread = true;
    try {
      Store(address, kPatience).get("second");
    } catch (const CollectiveError& error) {
      error_of_waiting = error.message();
    }
  });
  try {
    Store store(address, kPatience);
    store.set("first", "1");
    store.set("second", "2");
  } catch (const CollectiveError&) {
  }
  const bool has_failed = num_left_before_fault.exchange(-1) < 0;
  Store(address, kPatience).set("second", "2");
  waiting.join();
  EXPECT_EQ(error_of_waiting.find("must be set"), error_of_waiting.npos) << error_of_waiting;
  return has_failed;
}

TEST(StoreMemoryTest, WhicheverAllocationFailsTheServerGoesOn) {
  is_own_thread = true;
  int num_faults = 0;
  for (bool has_failed = true; has_failed; ++num_faults) {
    SCOPED_TRACE(num_faults);
    const StoreServer server;
    const std::ptrdiff_t num_before = num_descriptors();
    num_left_before_fault = num_faults;
    has_failed = use_store(server.address());

    const Store store(server.address());
    // Every connection that the server does not serve is closed: only the two ends of the store's
    // connection remain.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (num_descriptors() > num_before + 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    ASSERT_EQ(num_descriptors(), num_before + 2);
  }
  EXPECT_GT(num_faults, 20);
}

}  // namespace
}  // namespace ringrad
