// auto_partition: cuts a net where the times of its measured layers suggest.
//
//     const Partition partition = auto_partition(net, micro_batch, 4, partition_options(plan));
//     std::cout << partition;                                    a table
//     nn::split(std::move(net), partition.starts)                the stages

#pragma once

#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/plan/predict/partition.h"
#include "ringrad/parallel/train/pipeline/layer_profile.h"

namespace ringrad {

/// The optimal cut (plan/predict/partition.h) of a net whose layers are measured (layer_profile.h)
/// on `sample`, a micro-batch.
///
/// Throws: as profile_layers; ValueError for what optimal_partition refuses
Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         const PartitionOptions& options = {}, const ProfileOptions& profile = {},
                         Where where = Where::current());

/// The same on many ranks: rank 0 measures, and all ranks get the same cut if they pass the same
/// options.
///
/// Throws: likewise
Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         Communicator& comm, const PartitionOptions& options = {},
                         const ProfileOptions& profile = {}, Where where = Where::current());

}  // namespace ringrad
