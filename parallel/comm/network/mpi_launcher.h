// The launcher of this rank, mpirun or its daemon on another host: what happens once it has ended,
// and what a rank that gives up leaves behind for it.
//
//     rank 0   MPI_Init ... deadline, exits --.
//     rank 1   MPI_Init ... (stopped)          |   mpirun ends the other ranks, and then itself;
//     rank 2   MPI_Init ... deadline, exits --'    or it hangs or crashes here
//
// A rank in MPI_Init waits in a fence that mpirun keeps for it. OpenMPI's PMIx server (4.2.2) uses
// the fence's records after it has freed them when such ranks end: it then crashes, or its thread
// waits for ever for a lock in freed memory, and mpirun waits for that thread. The ranks cannot
// prevent this, because however they end, they end within the fence. So a rank that gives up leaves
// a process behind, which does what the launcher then no longer does.

#pragma once

#include <chrono>
#include <functional>

namespace ringrad {

/// From now on, this process calls at_end() and kills itself once its launcher has ended, as when
/// somebody kills mpirun. OpenMPI 4 does so by itself; ranks of OpenMPI 5 would wait for ever. Does
/// nothing if no ancestor of this process is a launcher of OpenMPI's.
void end_with_launcher(std::function<void()> at_end);

/// Starts a process that stays until this rank's launcher has ended. It kills the launcher if that
/// is alive `patience` after all its ranks have ended, and the launcher's ranks if they are alive
/// after the launcher has ended. Does nothing if no ancestor of this process is a launcher of
/// OpenMPI's. To be called by a rank that is about to end.
void watch_launcher(std::chrono::milliseconds patience = std::chrono::seconds(1));

}  // namespace ringrad
