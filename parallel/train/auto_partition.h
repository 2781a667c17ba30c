// auto_partition: cuts a net where its measured layers say so.
//
//     const Partition partition = auto_partition(net, micro_batch, 4, partition_options(plan));
//     std::cout << partition;                                    a table
//     nn::split(std::move(net), partition.starts)                the stages

#pragma once

#include "nn/sequential.h"
#include "parallel/comm/communicator.h"
#include "parallel/plan/partition.h"
#include "parallel/train/layer_profile.h"

namespace ringrad {

/// The optimal cut (plan/partition.h) of a net whose layers are measured (layer_profile.h) on `sample`, a micro-batch.
///
/// Throws: as profile_layers; ValueError for what optimal_partition refuses
Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         const PartitionOptions& options = {}, const ProfileOptions& profile = {},
                         Where where = Where::current());

/// The same on many ranks: rank 0 measures, and all get the same cut if they give the same options.
///
/// Throws: likewise
Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         Communicator& comm, const PartitionOptions& options = {},
                         const ProfileOptions& profile = {}, Where where = Where::current());

}  // namespace ringrad
