// Checkpoints of ranks that all have the same: one file for all of them.
//
//     save    state of rank 0, random states of all ranks  --->  file        rank 0 writes
//     load    file  --->  broadcast  --->  every rank                        rank 0 reads
//
// Each rank owns a replica, all of them equal (distributed_data_parallel.h), so rank 0's stands for all; what
// differs by rank is gathered. Before anything is written the ranks compare their state: what differs, such as that of a
// ShardedOptimizer or of a pipeline's stages, is refused by name, and is for a ShardedCheckpoint (sharded_checkpoint.h).
// Guarantee: the file is what one rank alone would have written, but for the random
// states, so a run may go on with any number of ranks, or with one. With as many as before every rank is what
// it was, to the bit. A rank that is new keeps the random state that it has.
//
// Both calls are collectives: all ranks make them at the same point, between steps. save_checkpoint returns on no
// rank before the file is in its place, and load_checkpoint on none before it has been read. If the file cannot be
// written or read, both throw on all ranks, and the group is whole. Only rank 0 needs the file. It may take longer than
// the group's deadline: `deadline` is for rank 0's writing and reading (on_root.h).

#pragma once

#include <chrono>
#include <filesystem>

#include "nn/checkpoint.h"
#include "parallel/comm/communicator.h"
#include "parallel/train/on_root.h"

namespace ringrad {

/// Of generators the file has those of all ranks, of buffers rank 0's, as DistributedDataParallel.
///
/// Throws: on all ranks ValueError that names the tensors, and the ranks, that are not as on rank 0; DataError that says
///         what one rank's list, or Checkpoint::save on rank 0, throws; CollectiveError
void save_checkpoint(const nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline = kWorkDeadline,
                     Where where = Where::current());

/// False, and nothing changes, if rank 0 has no such file.
///
/// REQUIRES: checkpoints list the same things on all ranks
/// Throws:   on all ranks DataError that says what Checkpoint::load throws on one of them, and then nothing has changed;
///           CollectiveError
bool load_checkpoint(nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline = kWorkDeadline,
                     Where where = Where::current());

}  // namespace ringrad
