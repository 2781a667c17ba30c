#include "ringrad/sim/unwritten.h"

#include <fenv.h>

#include <cstdint>

#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {
namespace {

constexpr std::uint16_t kQuietNan = 0xffff;
constexpr std::uint16_t kSignallingNan = 0x7fa0;

bool trapping = false;

}  // namespace

void trap_unwritten(bool on) { trapping = on; }

void fill_unwritten(void* p, std::size_t bytes) {
  fill_unseen(p, trapping ? kSignallingNan : kQuietNan, bytes);
}

ArithmeticTrap::ArithmeticTrap() {
  if (!trapping) return;
  feclearexcept(FE_INVALID);
  feenableexcept(FE_INVALID);
}

// A fault's handler may have left with the exception already masked; then this has no effect.
ArithmeticTrap::~ArithmeticTrap() {
  if (trapping) fedisableexcept(FE_INVALID);
}

}  // namespace ringrad::sim
