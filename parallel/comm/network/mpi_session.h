// This process's part in MPI: initialising and finalising it, the threads that may call it, and
// waiting for a request until a deadline.
//
// Private to mpi_transport.cc and mpi_group.cc; mpi_group.h says what programs may rely on.

#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/network/transport.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad::mpi {

/// Throws: TransportError with MPI's own text unless the call succeeded
void check(int status);

/// Polls until the request is done. Throws: TransportError if MPI fails; as TransportCall::check
void finish(MPI_Request& request, const TransportCall& call);

bool is_initialized();
bool is_finalized();

/// Initialises MPI unless the program has done so; then the program's exit finalises it. If MPI
/// does not come up within `limit`, the process ends (mpi_watchdog.h).
void begin_session(std::chrono::milliseconds limit);

/// Throws: CollectiveError if this thread may not call MPI, or none may any longer
void check_usable(Where where);

/// False if MPI does not provide MPI_THREAD_MULTIPLE: then the thread that initialised it makes all
/// calls.
bool serves_all_threads();

/// After a failure ranks may be missing, so the program's exit waits for them no longer than a call
/// of any group would.
void note_failure();
bool has_failed();
void note_deadline(std::chrono::duration<double> deadline);

/// The server of the job's store, if this process serves it; null otherwise. It lives until the
/// process ends.
std::unique_ptr<StoreServer>& own_server();

/// The time in whole milliseconds, but at most a year, since groups may wait forever.
std::chrono::milliseconds whole_milliseconds(std::chrono::duration<double> time);

}  // namespace ringrad::mpi
