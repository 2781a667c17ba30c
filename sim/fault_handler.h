// The fault handlers: what happens when a program touches device memory that is closed (memory.h), or
// a kernel computes with memory that nobody has written (unwritten.h).

#pragma once

#include "sim/memory.h"

namespace ringrad::sim {

/// From now on faults of this process concern this memory; null switches the handler off.
void handle_faults_of(Memory* memory);

/// Gives the calling thread a stack for the handler, since its own may be what overflowed.
void prepare_thread_for_faults();

}  // namespace ringrad::sim
