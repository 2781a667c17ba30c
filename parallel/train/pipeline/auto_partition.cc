#include "ringrad/parallel/train/pipeline/auto_partition.h"

#include <stdexcept>

namespace ringrad {
namespace {

Partition cut(const std::vector<LayerCost>& layers, int num_stages, const PartitionOptions& options,
              Where where) {
  try {
    return optimal_partition(layers, num_stages, options);
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what(), where);
  }
}

}  // namespace

Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         const PartitionOptions& options, const ProfileOptions& profile,
                         Where where) {
  return cut(profile_layers(net, sample, profile, where), num_stages, options, where);
}

Partition auto_partition(nn::Sequential& net, const Tensor& sample, int num_stages,
                         Communicator& comm, const PartitionOptions& options,
                         const ProfileOptions& profile, Where where) {
  return cut(profile_layers(net, sample, comm, profile, where), num_stages, options, where);
}

}  // namespace ringrad
