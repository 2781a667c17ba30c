#include "ringrad/core/gpu/launch.h"
#include "ringrad/tests/parallel/train/keep_busy.h"

namespace ringrad::testing {
namespace {

// Bytes that a simulated device's memory moves in a microsecond (sim/clock.cc).
constexpr double kBytesPerMicrosecond = 3350e3;

__global__ void do_nothing() {}

}  // namespace

void keep_busy(Device device, double microseconds) {
  launch_on(
      device,
      {.name = "keep_busy", .grid = 1, .block = 1, .bytes = microseconds * kBytesPerMicrosecond},
      Where::current(), do_nothing);
}

}  // namespace ringrad::testing
