// A Transport over MPI. Its operations are nonblocking and polled, so they keep the call's
// deadline.

#pragma once

#include <mpi.h>

#include <memory>

#include "ringrad/parallel/comm/network/transport.h"

namespace ringrad {

/// A transport of the ranks of `comm`. It uses a copy of the communicator, which the caller's
/// messages do not reach. All of its ranks must call this.
///
/// REQUIRES: MPI is initialised
/// Throws:   TransportError if a rank does not come in time
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, TransportCall& call);

}  // namespace ringrad
