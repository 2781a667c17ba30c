#include "ringrad/core/gpu/launch.h"
#include "ringrad/tests/parallel/comm/gpu/wait_for_word.h"

namespace ringrad::testing {
namespace {

__global__ void wait_kernel(const std::uint64_t* word) {
  const std::uint64_t begin = global_time_ns();
  while (load_acquire_system(word) == 0 && global_time_ns() - begin < 5'000'000'000)
    __nanosleep(100);
}

}  // namespace

void wait_for_word(Device device, const std::uint64_t* word) {
  launch_on(device, {.name = "wait_for_word", .grid = 1, .block = 1}, Where::current(), wait_kernel,
            word);
}

}  // namespace ringrad::testing
