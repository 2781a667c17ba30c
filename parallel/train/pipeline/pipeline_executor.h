// PipelineExecutor: runs one rank's part of a pipeline (pipeline.h), the plan's actions in order.
//
//     for (action : plan.actions[rank])
//       forward, backward ...      pipeline_stages.h
//       send, receive              comm/host/tensor_message.h, a stream each for activations and
//                                  for gradients
//       a stage's last backward    stage_replicas.h, if there are replicas
//
// An error on this rank aborts all groups of the pipeline.

#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/parallel/comm/communication_stream.h"
#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/parallel/train/pipeline/pipeline_clock.h"
#include "ringrad/parallel/train/pipeline/pipeline_stages.h"
#include "ringrad/parallel/train/pipeline/stage_replicas.h"
#include "ringrad/parallel/train/pipeline/tied_parameters.h"

namespace ringrad {

class PipelineExecutor {
 public:
  PipelineExecutor(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan,
                   PipelineStages::Loss loss, const PipelineOptions& options, Where where);

  Tensor train_step(const Tensor& x, const Tensor& target, Where where);
  Tensor forward(const Tensor& x, Where at);
  double clip_grad_norm(double max_norm, Where where);
  void sync_buffers(Where where);
  PipelineTimes times(Where where);

  std::vector<Tensor> parameters() const;
  bool is_repeated(const Tensor& parameter) const { return tied_->is_repeated(parameter); }
  const PipelinePlan& plan() const { return plan_; }
  const PipelineStages& stages() const { return stages_; }

 private:
  const std::vector<PipelineAction>& actions() const {
    return plan_.actions[static_cast<std::size_t>(comm_.rank())];
  }

  void add_stages(const std::vector<nn::Module*>& stages, Where where);
  void join(const std::vector<std::vector<StageParameter>>& ties,
            const std::vector<nn::Module*>& stages, const PipelineOptions& options, Where where);
  void mark_stages();
  void begin_step(Where where);
  template <class Body>
  void run(const char* what, Body body);
  void perform(const PipelineAction& action, Where where);
  void compute(const PipelineAction& action, Where where);
  void send(const PipelineAction& action, Where where);
  void receive(const PipelineAction& action, Where where);
  void abort(const std::string& reason) const noexcept;

  Communicator& comm_;
  const PipelinePlan plan_;
  Communicator* const replicas_comm_;
  PipelineStages stages_;
  Device device_ = default_device();
  std::optional<TiedParameters> tied_;
  std::map<int, StageReplicas> replicas_;     // by stage
  std::map<int, std::size_t> last_backward_;  // by stage: an index into actions()
  std::optional<PipelineClock> clock_;
  std::optional<nn::PartialGradients> marked_;
  // Activations and gradients may pass each other, so each kind has a group and a stream of its
  // own.
  std::unique_ptr<Communicator> activation_comm_, gradient_comm_;
  std::optional<CommunicationStream> activations_, gradients_;
};

}  // namespace ringrad
