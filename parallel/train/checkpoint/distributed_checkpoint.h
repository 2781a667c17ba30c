// Checkpoints of ranks that all hold the same state: one file for all of them.
//
//     save    state of rank 0, random states of all ranks  --->  file        rank 0 writes
//     load    file  --->  broadcast  --->  every rank                        rank 0 reads
//
// Each rank owns a replica, and all replicas are equal (distributed_data_parallel.h), so rank 0's
// stands for all. State that differs by rank, the random states, is gathered. Before anything is
// written, the ranks compare their state. Other state that differs, such as that of a
// ShardedOptimizer or of a pipeline's stages, is refused by name; use a ShardedCheckpoint for it
// (sharded_checkpoint.h).
//
// Guarantee: the file is what one rank alone would have written, except for the random states, so a
// run may go on with any number of ranks, or with one. With as many ranks as before, every rank is
// restored to the bit. A new rank keeps the random state that it has.
//
// Both calls are collectives: all ranks must make them at the same point, between steps. On every
// rank, save_checkpoint returns only once the file is in place, and load_checkpoint only once it
// has been read. If the file cannot be written or read, both throw on all ranks, and the group
// stays usable. Only rank 0 needs the file. Its writing and reading may take longer than the
// group's deadline: `deadline` limits them (on_root.h).

#pragma once

#include <chrono>
#include <filesystem>

#include "ringrad/nn/checkpoint/checkpoint.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/on_root.h"

namespace ringrad {

/// The file holds the generators of all ranks, and rank 0's buffers, as in DistributedDataParallel.
///
/// Throws: on all ranks: ValueError that names the tensors that differ from rank 0's, and the
///         ranks; DataError with the message of one rank's state, or of Checkpoint::save on rank 0;
///         CollectiveError
void save_checkpoint(const nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline = kWorkDeadline,
                     Where where = Where::current());

/// Returns false, and changes nothing, if rank 0 has no such file.
///
/// REQUIRES: checkpoints list the same things on all ranks
/// Throws:   on all ranks: DataError with the message of Checkpoint::load on one of them, before
///           anything has changed; CollectiveError
bool load_checkpoint(nn::Checkpoint& checkpoint, const std::filesystem::path& path,
                     Communicator& comm, std::chrono::nanoseconds deadline = kWorkDeadline,
                     Where where = Where::current());

}  // namespace ringrad
