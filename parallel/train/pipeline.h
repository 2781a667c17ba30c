// Pipeline: a model that is cut into stages, one or several on each rank, which work on different micro-batches of a
// batch at the same time.
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
//     rank 0, stage 0   F0 F1    B0 F2    B1 F3    B2    B3        activations go down, their gradients up
//     rank 1, stage 1      F0 B0    F1 B1    F2 B2    F3 B3
//
// The order of work is a plan (plan/pipeline_schedules.h, or a list of yours), which is proved before it is run. Each
// rank owns: the parameters, gradients and optimizer state of its stages, the activations of the micro-batches that the
// plan keeps (peak_kept in plan/pipeline_check.h), and two tensors on the way to each neighbour.
//
// Guarantee: gradients are those of the whole model with the same micro-batches one after the other,
//
//     for (b ...) loss(model(x[b]), y[b]).backward(full({}, rows[b] / rows));
//
// bit by bit, whatever the schedule and the number of ranks, as long as a plan takes each stage's backward passes in
// the order of micro-batches, as all of ours do. Parameters that several stages share are the exception: their
// gradients are added stage by stage, not micro-batch by micro-batch.
//
// A batch of B rows is cut along axis 0: micro-batch b has the rows [b B / m, (b + 1) B / m), and the loss, a mean over
// its rows, counts by their number. Activations may have any shape, which may differ from one micro-batch to the next.
// Batch norm normalises each micro-batch by itself, and updates its running statistics once for each, in their order:
// what it does with accumulated gradients on one device. Random numbers (dropout) are drawn from each rank's default
// generator, so they are not those of one device.
//
// With replicas, a second axis of ranks that hold the same stages for other parts of the batch (mesh.h), gradients are
// averaged over them as DistributedDataParallel does, bucket by bucket during a stage's last backward pass. For sharded
// optimizer state leave them out here, and give each stage a ShardedOptimizer. nn::clip_grad_norm and nn::GradScaler see one
// rank's gradients only: clip_grad_norm() here takes all, and a GradScaler should not be used.
//
// Between GPUs of one machine no host waits for a device: messages go on streams of their own. Otherwise a message is copied
// when it is sent, and again when it is received.
//
// Failure: an exception in any stage, or a rank that dies or waits for longer than the deadline, ends train_step() on all
// ranks, also of the replicas that are given here, with an error that says which and why.
//
// Papers: Huang et al. 2019, "GPipe", arXiv:1811.06965; for the others see pipeline_schedules.h

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"
#include "nn/sequential.h"
#include "parallel/comm/communicator.h"
#include "parallel/plan/pipeline_cost.h"
#include "parallel/plan/pipeline_plan.h"
#include "parallel/train/distributed_data_parallel.h"
#include "parallel/train/tied_parameters.h"

namespace ringrad {

class PipelineExecutor;

struct PipelineOptions {
  /// The ranks that hold the same stages; must outlive the pipeline.
  Communicator* replicas = nullptr;
  DistributedDataParallelOptions data_parallel = {};
  /// Keep only a stage's input until its backward pass, which computes the stage again (autograd/checkpoint.h). Running
  /// statistics are updated once all the same. Not for plans with backward in two halves.
  bool checkpoint = false;
  /// Parameters that are one and the same, such as an embedding and the last layer's weight: they get the lowest rank's
  /// value, and the sum of their gradients. Where all stages are given, those that share a tensor are found without.
  std::vector<std::vector<StageParameter>> tied = {};
  /// Note when each action begins and ends, for times(). Every step then begins when all ranks have come to it.
  bool measure = false;
};

class Pipeline {
 public:
  /// The mean over the rows of a micro-batch, one element.
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  /// Stage s is on rank s mod world_size; those of other ranks may be null. Without messages the plan gets them
  /// (with_messages). All ranks construct it at the same point.
  ///
  /// REQUIRES: stages and communicators outlive it
  /// Throws:   CollectiveError on all ranks if they have different plans or options; ValueError unless the plan is proved,
  ///           is for as many devices as ranks and as many stages as given; on one rank, and CollectiveError on the others,
  ///           ValueError if its stage is null, DeviceError unless all its parameters are on one device
  Pipeline(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan, Loss loss,
           const PipelineOptions& options = {}, Where where = Where::current());
  Pipeline(std::vector<nn::Sequential>& stages, Communicator& comm, PipelinePlan plan, Loss loss,
           const PipelineOptions& options = {}, Where where = Where::current());
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Adds the gradients of the mean loss over the batch, which is returned on every rank, float32; with replicas, of this
  /// replica's batch. All ranks call it; `x` counts on the first stage's rank, `target` on the last one's.
  ///
  /// Shapes:  x (B, ...), target (B, ...), B at least the number of micro-batches -> ()
  /// Throws:  AutogradError under NoGrad; ShapeError for fewer rows, or a target of other rows than the output; what a
  ///          stage throws, with "Pipeline: forward stage 1 micro-batch 0: " before its message; CollectiveError on the
  ///          other ranks
  Tensor train_step(const Tensor& x, const Tensor& target = {}, Where where = Where::current());

  /// The output of the last stage for the whole batch, without gradients, on its rank; an undefined tensor on others.
  /// All ranks call it. There may be fewer rows than micro-batches.
  ///
  /// Throws: as train_step
  Tensor forward(const Tensor& x, Where where = Where::current());

  /// What is trained of this rank's stages, in their order; those of all ranks together are the whole model's. A rank may
  /// have none, and then needs no optimizer.
  std::vector<Tensor> parameters() const;

  /// Scales the gradients of all ranks by one factor so that their joint Euclidean norm is at most max_norm; returns the
  /// norm before, the same on all ranks. All ranks call it.
  ///
  /// Throws: ValueError unless max_norm > 0, or on all ranks if the norm is not finite: nothing is scaled then, and the
  ///         pipeline goes on
  double clip_grad_norm(double max_norm, Where where = Where::current());

  /// All this rank's stages: training or evaluation.
  void train(bool training = true);
  void eval() { train(false); }

  /// Gives all replicas the buffers (running statistics) of the first: before evaluation. All ranks call it; nothing without
  /// replicas.
  void sync_buffers(Where where = Where::current());

  /// With its messages.
  const PipelinePlan& plan() const;
  /// The latest train_step's, on the last stage's rank.
  const std::vector<Tensor>& micro_batch_losses() const;
  /// The most micro-batches that this rank has kept at the same time in the latest train_step, counted per stage.
  int peak_kept() const;

  /// When each action of the latest train_step began and ended, on all ranks; on a GPU by its clock, the simulated one's
  /// on a simulated. All ranks call it.
  ///
  /// Throws: ValueError unless options.measure, and after a step
  PipelineTimes times(Where where = Where::current());

 private:
  const std::unique_ptr<PipelineExecutor> executor_;
};

}  // namespace ringrad
