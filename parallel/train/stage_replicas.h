// StageReplicas: a stage of a pipeline, and the same stage on the ranks of other replicas. They begin as the first one's,
// see the same running statistics, and average their gradients in the last of a step's backward passes.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nn/module.h"
#include "parallel/comm/communicator.h"
#include "parallel/train/distributed_data_parallel.h"

namespace ringrad {

class StageReplicas {
 public:
  /// All of the stage's replicas construct it together. A stage of which nothing is trained has its values only.
  ///
  /// REQUIRES: stage and comm outlive it
  /// Throws:   CollectiveError naming the ranks whose stages differ
  StageReplicas(nn::Module& stage, Communicator& comm,
                const DistributedDataParallelOptions& options, Where where);

  /// Buffers become the first replica's; backward passes from here on are this rank's own.
  void begin_step(Where where);
  void before_last_backward() { not_yet_.reset(); }
  /// Averages what the last pass itself has not, since it reached no parameter.
  void after_last_backward();

  void sync_buffers(Where where);

 private:
  nn::Module& stage_;
  Communicator& comm_;
  const bool broadcasts_buffers_;
  std::optional<DistributedDataParallel> trained_;
  std::optional<DistributedDataParallel::NoSync> not_yet_;
  std::int64_t num_passes_ = 0;
};

}  // namespace ringrad
