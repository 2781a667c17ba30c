// What a process knows of its job when it starts, from the environment that its launcher made:
//
//     ringrun, torchrun   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
//     mpirun (OpenMPI)    OMPI_COMM_WORLD_RANK ..._SIZE ..._LOCAL_RANK ..._LOCAL_SIZE
//     srun                SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_NTASKS_PER_NODE
//
// The first line wins where several are set. ringrun also sets RINGRAD_TOKEN, and serves the store; under
// the others rank 0 does, at MASTER_ADDR and MASTER_PORT (127.0.0.1 and 29500 if they are not set; one port
// further where torchrun has its own store there), and the token is made of the job's number, if it has one.

#pragma once

#include "core/error.h"
#include "parallel/comm/store.h"

namespace ringrad {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        ///< among the ranks of this host
  int local_world_size = 1;  ///< how many those are
  StoreAddress store;        ///< port 0 if the environment names none
  bool launcher_serves_store = false;
  int restart = 0;        ///< how often ringrun or torchrun has started the job anew
  bool launched = false;  ///< one of the variables above says which rank this is
};

/// Reads the environment; without any of these variables it is the only rank.
///
/// Throws: ValueError for a variable that makes no sense: no number, a rank that is not below the size, a
///         rank without a size
RankEnvironment rank_environment(Where where = Where::current());

}  // namespace ringrad
