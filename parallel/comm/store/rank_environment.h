// What a process knows of its job when it starts, from the environment that its launcher made:
//
//     ringrun, torchrun   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
//     mpirun (OpenMPI)    OMPI_COMM_WORLD_RANK ..._SIZE ..._LOCAL_RANK ..._LOCAL_SIZE
//     mpiexec (MPICH's and Intel's, which are Hydra)
//                         PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS
//     srun                SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_NTASKS_PER_NODE (a limit)
//
// The first line wins where several are set. ringrun also sets RINGRAD_TOKEN, RINGRAD_JOB and
// RINGRAD_LAUNCHER_SERVES_STORE. Under the other launchers rank 0 serves the store. If the user
// sets RINGRAD_TOKEN to the same secret on all ranks, rank 0 serves it at MASTER_ADDR and
// MASTER_PORT (127.0.0.1 and 29500 if they are not set; one port further where torchrun has its own
// store there). Without RINGRAD_TOKEN, rank 0 serves it for ranks of one host only (job_store.h).

#pragma once

#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/store/store_address.h"

namespace ringrad {

/// For messages: how the user gives ranks a secret when their launcher does not.
inline constexpr const char* kHowToShareSecret =
    "share a secret: set RINGRAD_TOKEN on all ranks to one output of `openssl rand -hex 16`";

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        ///< among the ranks of this host
  int local_world_size = 1;  ///< the number of those ranks; under srun on several hosts, a limit
  StoreAddress store;        ///< port 0, or an empty token, if the environment names none
  bool launcher_serves_store = false;
  std::string rank_variable = "RANK";  ///< which of the variables above says which rank this is
  std::string
      identity;     ///< the variables that tell this job from others; equal on all of its ranks
  int restart = 0;  ///< how often ringrun or torchrun has started the job anew
  bool launched = false;  ///< one of the variables above says which rank this is
};

/// Reads the environment. Without any of these variables, this process is the only rank.
///
/// Throws: ValueError for a variable that makes no sense: no number, a rank that is not below the
///         size, a rank without a size (or PMI_RANK without MPI_LOCALRANKID), a size or local rank
///         without a rank (but SLURM_NTASKS, which salloc sets), a RINGRAD_TOKEN that could be
///         guessed (check_token)
RankEnvironment rank_environment(Where where = Where::current());

/// A name that tells this run of the job from others, for files that ranks leave: equal on all
/// ranks, and without secrets. It is RINGRAD_JOB, which ringrun sets anew for each restart, or made
/// of the variables of other launchers. It does not tell apart runs by torchrun with the same
/// address, port and --rdzv-id, runs by MPICH's or Intel's mpiexec, and runs of a job that Slurm
/// has requeued. Without a launcher it is empty.
std::string job_name();

}  // namespace ringrad
