// Pipeline: a model that is cut into stages, one or several on each rank. The stages work on
// different micro-batches of a batch at the same time.
//
//     auto loss = [](const Tensor& y, const Tensor& target) { return cross_entropy(y, target); };
//     std::vector<nn::Sequential> stages = nn::Sequential::split(make_net(), {0, 3});
//     Pipeline pipeline(stages, comm, one_forward_one_backward(2, 4), loss);
//     nn::SGD optimizer(pipeline.parameters(), {.learning_rate = 0.1});
//     for (...) {
//       optimizer.zero_grad();
//       Tensor mean_loss = pipeline.train_step(x, y);     forward and backward of all micro-batches
//       optimizer.step();
//     }
//
//     rank 0, stage 0   F0 F1    B0 F2    B1 F3    B2    B3     activations go down, gradients up
//     rank 1, stage 1      F0 B0    F1 B1    F2 B2    F3 B3
//
// Guarantee: gradients are those of the whole model on the same micro-batches one after another,
// bit by bit, whatever the schedule and the number of ranks. An exception or a dead rank ends
// train_step() on all ranks. README.md, "Ownership and failures", has the conditions.
//
// Papers: Huang et al. 2019, "GPipe", arXiv:1811.06965; for the others see pipeline_schedules.h

#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/parallel/comm/communication_stream.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/pipeline/pipeline_clock.h"
#include "ringrad/parallel/train/pipeline/pipeline_stages.h"
#include "ringrad/parallel/train/pipeline/stage_replicas.h"
#include "ringrad/parallel/train/pipeline/tied_parameters.h"

namespace ringrad {

struct PipelineOptions {
  /// The ranks that hold the same stages; must outlive the pipeline.
  Communicator* replicas = nullptr;
  DistributedDataParallelOptions data_parallel = {};
  /// Keep only a stage's input until its backward pass, which computes the stage again
  /// (autograd/activation_checkpoint.h). Running statistics are still updated only once. Not for
  /// plans with backward in two halves.
  bool checkpoint_activations = false;
  /// Parameters that are one and the same, such as an embedding and the last layer's weight: they
  /// get the lowest rank's value, and the sum of their gradients. Where all stages are given,
  /// parameters that share a tensor are found automatically.
  std::vector<std::vector<StageParameter>> tied = {};
  /// Record when each action begins and ends, for times(). Every step then begins when all ranks
  /// have reached it.
  bool measure = false;
};

/// A batch of B rows is cut along axis 0: micro-batch b has the rows [b B / m, (b + 1) B / m). The
/// loss, a mean over its rows, is weighted by their number. Activations may have any shape, and a
/// different one in each micro-batch. Batch norm normalises each micro-batch by itself and updates
/// its running statistics once for each, in their order, as with accumulated gradients on one
/// device. Random numbers (dropout) come from each rank's default generator, so they are not those
/// of one device.
///
/// With replicas, a second axis of ranks that hold the same stages for other parts of the batch
/// (mesh.h), gradients are averaged as DistributedDataParallel does, bucket by bucket during a
/// stage's last backward pass. For sharded optimizer state, leave replicas out here and give each
/// stage a ShardedOptimizer. nn::clip_grad_norm and nn::GradScaler refuse the parameters of one
/// rank's stages: use clip_grad_norm() here, or ModelGradients (gradients/model_gradients.h), which
/// also knows GradScaler, ShardedOptimizer and parallel layers.
///
/// train_step() takes the plan's actions of this rank in order: pipeline_stages.h computes,
/// comm/host/tensor_message.h sends and receives, stage_replicas.h averages in a stage's last
/// backward pass. An error on this rank aborts all groups of the pipeline.
///
/// Between GPUs of one machine no host waits for a device: messages have streams of their own.
/// Otherwise a message is copied when it is sent, and again when it is received.
class Pipeline {
 public:
  /// The mean over the rows of a micro-batch, one element.
  using Loss = PipelineStages::Loss;

  /// Stage s is on rank s mod world_size; stages of other ranks may be null. A plan without
  /// messages gets them (with_messages). All ranks must construct it at the same point.
  ///
  /// REQUIRES: stages and communicators outlive it
  /// Throws:   CollectiveError on all ranks if their plans or options differ; ValueError unless the
  ///           plan is proved, and has as many devices as there are ranks and as many stages as are
  ///           given; on one rank (with CollectiveError on the others), ValueError if its stage is
  ///           null, DeviceError unless all its parameters are on one device
  Pipeline(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan, Loss loss,
           const PipelineOptions& options = {}, Where where = Where::current());
  Pipeline(std::vector<nn::Sequential>& stages, Communicator& comm, PipelinePlan plan, Loss loss,
           const PipelineOptions& options = {}, Where where = Where::current());
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Adds the gradients of the mean loss over the batch. Returns that loss on every rank, float32;
  /// with replicas, the loss of this replica's batch. All ranks must call it; only the first
  /// stage's rank uses `x`, and only the last one's `target`.
  ///
  /// Shapes:  x (B, ...), target (B, ...), B at least the number of micro-batches -> ()
  /// Throws:  AutogradError under NoGradGuard; ShapeError for fewer rows, or if target and output
  ///          differ in rows; what a stage throws, with "Pipeline: forward stage 1 micro-batch 0: "
  ///          before its message; CollectiveError on the other ranks
  Tensor train_step(const Tensor& x, const Tensor& target = {}, Where where = Where::current());

  /// Returns the output of the last stage for the whole batch, without gradients, on that stage's
  /// rank; on other ranks an undefined tensor. All ranks must call it. There may be fewer rows than
  /// micro-batches, or none.
  ///
  /// Throws: as train_step
  Tensor forward(const Tensor& x, Where at = Where::current());

  /// The trained parameters of this rank's stages, in their order; all ranks' together are the
  /// whole model's. A rank may have none, and then needs no optimizer.
  std::vector<Tensor> parameters() const;

  /// Scales the gradients of all ranks by one factor, so that their joint Euclidean norm is at most
  /// max_norm. Returns the norm before scaling, the same on all ranks. All ranks must call it.
  ///
  /// Throws: ValueError unless max_norm > 0, or on all ranks if the norm is not finite: nothing is
  ///         scaled then, and the pipeline remains usable; ValueError if a ShardedOptimizer is yet
  ///         to average the gradients, or a parallel layer has a part of them on other ranks: this
  ///         would not be the model's norm, which ModelGradients computes
  double clip_grad_norm(double max_norm, Where where = Where::current());

  /// This rank's stages, by their index.
  const std::map<int, nn::Module*>& stages() const { return stages_.modules(); }
  /// True for a trained parameter that a stage of a lower rank has as well (PipelineOptions::tied).
  bool is_repeated(const Tensor& parameter) const { return tied_->is_repeated(parameter); }

  /// Sets all stages of this rank to training or evaluation.
  void train(bool training = true);
  void eval() { train(false); }

  /// Gives all replicas the buffers (running statistics) of the first. Call it before evaluation,
  /// on all ranks. Does nothing without replicas.
  void sync_buffers(Where where = Where::current());

  /// The plan, including its messages.
  const PipelinePlan& plan() const { return plan_; }
  /// The losses of the latest train_step, on the last stage's rank.
  const std::vector<Tensor>& micro_batch_losses() const { return stages_.losses(); }
  /// The most micro-batches that this rank has kept at the same time in the latest train_step,
  /// counted per stage.
  int peak_kept() const { return stages_.peak_kept(); }

  /// When each action of the latest train_step began and ended, on all ranks. GPU times come from
  /// the device's clock (the simulator's, if simulated). All ranks must call it.
  ///
  /// Throws: ValueError unless options.measure is set and a step has run
  PipelineTimes times(Where where = Where::current());

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
