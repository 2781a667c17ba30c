// StageReplicas: a stage of a pipeline, and the same stage on the ranks of other replicas. They
// begin with the first replica's values, use its running statistics, and average their gradients in
// the last backward pass of a step.

#pragma once

#include <cstdint>
#include <optional>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/replica.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {

class StageReplicas {
 public:
  /// All of the stage's replicas must construct it together. A stage without trained parameters
  /// only shares its values.
  ///
  /// REQUIRES: stage and comm outlive it
  /// Throws:   CollectiveError naming the ranks whose stages differ
  StageReplicas(nn::Module& stage, Communicator& comm,
                const DistributedDataParallelOptions& options, Where where);

  /// Buffers become the first replica's. Backward passes from here on are not averaged.
  void begin_step(Where where);
  void before_last_backward() { not_yet_.reset(); }
  /// Averages now, if the last pass did not because it reached no parameter.
  void after_last_backward();

  void sync_buffers(Where where);

 private:
  nn::Module& stage_;
  Communicator& comm_;
  const bool broadcasts_buffers_;
  std::optional<Replica> frozen_;  // a stage without trained parameters
  std::optional<DistributedDataParallel> trained_;
  std::optional<DistributedDataParallel::NoSync> not_yet_;
  std::int64_t num_passes_ = 0;
};

}  // namespace ringrad
