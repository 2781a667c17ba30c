// The fault handlers: they run when a program touches closed device memory (memory.h), or a kernel
// computes with memory that was never written (unwritten.h).

#pragma once

#include "ringrad/sim/memory.h"

namespace ringrad::sim {

/// From now on the handler treats faults in this memory; null switches it off.
void handle_faults_of(Memory* memory);

/// Gives the calling thread a separate stack for the handler, since its own may have overflowed.
void prepare_thread_for_faults();

}  // namespace ringrad::sim
