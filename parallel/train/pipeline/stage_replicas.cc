#include "ringrad/parallel/train/pipeline/stage_replicas.h"

#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/train/common/known_parameters.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {

StageReplicas::StageReplicas(nn::Module& stage, Communicator& comm,
                             const DistributedDataParallelOptions& options, Where where)
    : stage_(stage), comm_(comm), broadcasts_buffers_(options.broadcast_buffers) {
  if (!trained_parameters(stage).empty())
    trained_.emplace(stage, comm, options, where);
  else
    frozen_.emplace("Pipeline", stage, comm, where);
}

void StageReplicas::begin_step(Where where) {
  if (trained_) {
    trained_->begin_forward({}, where);
    num_passes_ = trained_->num_passes();
    not_yet_.emplace(*trained_);
    return;
  }
  for (const Tensor& parameter : stage_.parameters())
    RINGRAD_CHECK(!parameter.requires_grad(), AutogradError, where,
                  "Pipeline: a stage that was frozen when it was made must stay so; got a "
                  "parameter of shape ",
                  parameter.shape(), " that requires a gradient now; make a new one");
  if (broadcasts_buffers_ && stage_.is_training()) sync_buffers(where);
}

void StageReplicas::after_last_backward() {
  if (trained_ && trained_->num_passes() == num_passes_) trained_->average_now();
}

void StageReplicas::sync_buffers(Where where) {
  if (trained_) return trained_->sync_buffers(where);
  const PurposeScope scope(frozen_->purpose());
  broadcast_buffers(stage_, comm_, where);
}

}  // namespace ringrad
