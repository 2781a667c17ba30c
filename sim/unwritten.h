// Unwritten memory: what it holds, and how its use is found.
//
//     0xffff ffff   by default: NaN in all floating types, so that it shows in results
//     0x7fa0 7fa0   if use is to trap: a signalling NaN in float32 and bfloat16, which the
//                   processor itself refuses to compute with; a kernel that does is stopped at that
//                   line
//
// Trapping also stops a kernel that computes a NaN from numbers, as inf - inf does: the processor
// has one exception for both.

#pragma once

#include <cstddef>

namespace ringrad::sim {

/// Applies to all memory filled from now on, and to all kernels that run.
void trap_unwritten(bool on);

void fill_unwritten(void* p, std::size_t bytes);

/// While it lives, arithmetic on a signalling NaN raises SIGFPE, if trapping is on.
class ArithmeticTrap {
 public:
  ArithmeticTrap();
  ~ArithmeticTrap();
  ArithmeticTrap(const ArithmeticTrap&) = delete;
  ArithmeticTrap& operator=(const ArithmeticTrap&) = delete;
};

}  // namespace ringrad::sim
