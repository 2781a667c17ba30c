// oneDNN writes where it has asked for memory, and nowhere else. Its code is made at run time, so
// no sanitizer sees it: here each of its blocks ends with bytes that must keep their value.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/convolution.h"
#include "ringrad/kernels/library/has_onednn.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

// glibc's free(), under the name that it has besides.
extern "C" void __libc_free(void* block);

namespace {

constexpr std::size_t kFenceBytes = 1 << 14;
constexpr unsigned char kFence = 0xA5;

struct Block {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};

// What posix_memalign() has given and free() has not taken back. Nothing but oneDNN calls it here.
std::mutex mutex;
std::array<Block, 256> blocks;
std::atomic<int> num_checked = 0, num_broken = 0;

}  // namespace

// Sanitizers have a free() of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsWatched = false;
#else
constexpr bool kIsWatched = true;

extern "C" int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  const std::size_t size = (bytes + kFenceBytes + alignment - 1) / alignment * alignment;
  auto* const begin = static_cast<unsigned char*>(std::aligned_alloc(alignment, size));
  *block = begin;
  if (!begin) return ENOMEM;
  std::memset(begin + bytes, kFence, kFenceBytes);
  const std::lock_guard lock(mutex);
  const auto place = std::ranges::find(blocks, nullptr, &Block::begin);
  if (place == blocks.end()) std::abort();
  *place = {begin, bytes};
  return 0;
}

extern "C" void free(void* block) noexcept {
  if (block) {
    const std::lock_guard lock(mutex);
    const auto place = std::ranges::find(blocks, block, &Block::begin);
    if (place != blocks.end()) {
      const unsigned char* const fence = place->begin + place->bytes;
      ++num_checked;
      num_broken +=
          std::any_of(fence, fence + kFenceBytes, [](int byte) { return byte != kFence; });
      *place = {};
    }
  }
  __libc_free(block);
}
#endif

namespace ringrad::kernels {
namespace {

using ringrad::testing::Random;
using ringrad::testing::Team;

TEST(ScratchMemoryTest, ConvolutionsStayWithinIt) {
  if (!kIsWatched) GTEST_SKIP() << "a sanitizer watches the memory";
  if (!kHasOneDnn) GTEST_SKIP() << "the library has no oneDNN";
  // So that all of a case's blocks are freed with the thread that keeps its plans.
  dnnl::set_primitive_cache_capacity(0);
  const std::array<std::int64_t, 2> strides[] = {{1, 1}, {2, 2}, {1, 3}};
  for (const int threads : {1, 2})
    for (const std::int64_t channels : {1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24})
      for (const std::int64_t outputs : {3, 8, 20})
        for (const auto& stride : strides)
          for (const std::int64_t taps : {1, 3}) {
            std::thread([&] {
              const Team team(threads);
              Random random(1);
              const Tensor x = random.tensor({4, channels, 8, 9}, DType::float32);
              const Tensor weight = random.tensor({outputs, channels, taps, taps}, DType::float32);
              const Conv2dOptions options{.stride = stride, .padding = {taps / 2, taps / 2}};
              const Tensor y = convolution(x, weight, {}, options);
              convolution_backward_input(y, weight, x.shape(), options);
              convolution_backward_weight(y, x, weight.shape(), true, options);
            }).join();
            ASSERT_EQ(num_broken, 0) << channels << " to " << outputs << " channels, stride "
                                     << stride[0] << ' ' << stride[1] << ", taps " << taps;
          }
  EXPECT_GT(num_checked, 0) << "oneDNN must allocate by posix_memalign";
}

}  // namespace
}  // namespace ringrad::kernels
