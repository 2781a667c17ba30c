#include "ringrad/parallel/train/pipeline/pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/node.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/trace.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/clip_to_norm.h"
#include "ringrad/parallel/comm/common/rethrow.h"
#include "ringrad/parallel/comm/host/tensor_message.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/comm/record/fault_point.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/train/common/joint_norm.h"

namespace ringrad {
namespace {

// The dtype of a message that stands for no gradient: a stage has not used its input, and the stage
// before it waits for an answer. Gradients are floating.
constexpr DType kNoGradient = DType::bool_;

// Every action, messages included.
std::string text_of(const PipelinePlan& plan) {
  std::string text = concat(plan);
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions) text += concat(action, '\n');
  return text;
}

// REQUIRES: all ranks have the same arguments
void check(const PipelinePlan& plan, int world_size, std::size_t num_stages, bool checkpoint,
           Where where) {
  RINGRAD_CHECK(plan.num_devices == world_size, ValueError, where,
                "Pipeline: the plan must be for as many devices as there are ranks; got ",
                plan.num_devices, " and ", world_size);
  RINGRAD_CHECK(plan.num_stages == static_cast<int>(num_stages), ValueError, where,
                "Pipeline: there must be as many stages as the plan has; got ", num_stages, " and ",
                plan.num_stages);
  const auto wrong = pipeline_check(plan, kTensorsUnderWay);
  RINGRAD_CHECK(!wrong, ValueError, where, "Pipeline: the plan must be proved; got ",
                concat(*wrong));
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions)
      RINGRAD_CHECK(action.op != PipelineOp::backward_input || !checkpoint, ValueError, where,
                    "Pipeline: with checkpoint, backward passes must be whole; got ", action);
}

std::vector<nn::Module*> addresses(std::vector<nn::Sequential>& stages) {
  std::vector<nn::Module*> modules;
  for (nn::Sequential& stage : stages) modules.push_back(&stage);
  return modules;
}

}  // namespace

Pipeline::Pipeline(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : comm_(comm),
      plan_(has_messages(plan) ? std::move(plan) : with_messages(plan)),
      replicas_comm_(options.replicas),
      stages_(plan_.num_stages, plan_.num_micro_batches, std::move(loss),
              options.checkpoint_activations) {
  const auto ties = all_ties(options.tied,
                             std::find(stages.begin(), stages.end(), nullptr) == stages.end()
                                 ? stages
                                 : std::vector<nn::Module*>(),
                             where);
  std::string text =
      concat(text_of(plan_), stages.size(), " stages",
             options.checkpoint_activations ? ", checkpoint" : "",
             options.measure ? ", measured" : "", replicas_comm_ ? ", replicas" : "");
  for (const auto& tie : ties)
    for (const auto& [stage, name] : tie) text += concat("\ntied ", stage, ' ', name);
  check_same_text("Pipeline: all ranks must have rank 0's plan and options", text, comm, where);
  check(plan_, comm.world_size(), stages.size(), options.checkpoint_activations, where);
  // From here on, ranks may fail independently.
  run("Pipeline", [&] {
    add_stages(stages, where);
    join(ties, stages, options, where);
  });
}

Pipeline::Pipeline(std::vector<nn::Sequential>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : Pipeline(addresses(stages), comm, std::move(plan), std::move(loss), options, where) {}

void Pipeline::add_stages(const std::vector<nn::Module*>& stages, Where where) {
  for (int index = comm_.rank(); index < plan_.num_stages; index += comm_.world_size()) {
    nn::Module* const stage = stages[static_cast<std::size_t>(index)];
    RINGRAD_CHECK(stage, ValueError, where, "Pipeline: rank ", comm_.rank_names()(comm_.rank()),
                  " must have stage ", index, "; got null");
    stages_.add(index, *stage);
  }
  std::optional<Device> device;
  for (const auto& [index, stage] : stages_.modules())
    for (const Tensor& parameter : stage->parameters()) {
      if (!device) device_ = *(device = parameter.device());
      RINGRAD_CHECK(parameter.device() == device_, DeviceError, where,
                    "Pipeline: all parameters of a rank must be on one device; got ", device_,
                    " and ", parameter.device(), " in stage ", index);
    }
  for (std::size_t i = 0; i < actions().size(); ++i)
    if (const auto& action = actions()[i];
        action.op == PipelineOp::backward || action.op == PipelineOp::backward_weight)
      last_backward_[action.stage] = i;
}

void Pipeline::join(const std::vector<std::vector<StageParameter>>& ties,
                    const std::vector<nn::Module*>& stages, const PipelineOptions& options,
                    Where where) {
  check_same_text("Pipeline: all ranks must compute alike",
                  device_.is_cpu() ? "on CPUs" : "on GPUs", comm_, where);
  activation_comm_ = comm_.split(0, 0, where);
  gradient_comm_ = comm_.split(0, 0, where);
  // After the first collective on GPUs, messages go directly between them.
  if (device_.is_cuda())
    for (Communicator* group : {activation_comm_.get(), gradient_comm_.get()})
      group->broadcast(zeros({1}, {.device = device_}, where), 0, where);
  std::set<const TensorImpl*> seen;
  if (replicas_comm_)
    for (const auto& [index, stage] : stages_.modules()) {
      for (const Tensor& parameter : stage->parameters())
        RINGRAD_CHECK(seen.insert(parameter.impl()).second, ValueError, where,
                      "Pipeline: with replicas, stages of one rank must not share parameters; got "
                      "one of shape ",
                      parameter.shape(), " again in stage ", index);
      replicas_.try_emplace(index, *stage, *replicas_comm_, options.data_parallel, where);
    }
  tied_.emplace(ties, stages, comm_, where);
  mark_stages();
  if (options.measure) clock_.emplace(comm_, device_);
  activations_.emplace(*activation_comm_, device_, /*overlaps=*/device_.is_cuda());
  gradients_.emplace(*gradient_comm_, device_, /*overlaps=*/device_.is_cuda());
}

// Other ranks have the model's other parameters.
void Pipeline::mark_stages() {
  if (comm_.world_size() == 1) return;
  std::vector<nn::NamedTensor> all;
  for (const auto& [index, stage] : stages_.modules())
    for (const auto& [name, parameter] : stage->named_parameters())
      all.emplace_back(concat("stage ", index, "'s ", name), parameter);
  marked_.emplace(nn::PartOf::stage, "Pipeline", std::move(all));
}

// --- A step ------------------------------------------------------------------------------------

Tensor Pipeline::train_step(const Tensor& x, const Tensor& target, Where where) {
  Tensor loss;
  run("train_step", [&] {
    RINGRAD_CHECK(grad_enabled(), AutogradError, where,
                  "train_step: gradients must be on; got a call under NoGradGuard");
    stages_.begin(x, target);
    begin_step(where);
    for (std::size_t i = 0; i < actions().size(); ++i) {
      const int stage = actions()[i].stage;
      const auto replicas = replicas_.find(stage);
      const bool is_last = replicas != replicas_.end() && i == last_backward_[stage];
      if (is_last) replicas->second.before_last_backward();
      perform(actions()[i], where);
      fault_point(FaultPoint::pipeline_action_done);
      if (is_last) replicas->second.after_last_backward();
      if (clock_) clock_->mark(where);
    }
    tied_->add_gradients(where);
    loss = stages_.losses().empty() ? empty({}, {.dtype = DType::float32, .device = device_}, where)
                                    : stages_.mean_loss(where);
    comm_.broadcast(loss, plan_.device_of(plan_.num_stages - 1), where);
  });
  return loss;
}

void Pipeline::begin_step(Where where) {
  fault_step();
  tied_->begin_step();
  for (auto& [index, replicas] : replicas_) replicas.begin_step(where);
  if (clock_) clock_->begin_step(where);
}

// An error also ends the other ranks' steps.
template <class Body>
void Pipeline::run(const char* what, Body body) {
  struct Clear {
    PipelineStages& stages;
    ~Clear() { stages.clear(); }
  } const clear{stages_};
  try {
    body();
  } catch (const std::exception& error) {
    abort(concat(what, ": ", error.what()));
    throw;
  } catch (...) {
    abort(concat(what, ": an exception of unknown type"));
    throw;
  }
}

void Pipeline::abort(const std::string& reason) const noexcept {
  for (Communicator* comm : {activation_comm_.get(), gradient_comm_.get(), &comm_, replicas_comm_})
    if (comm) comm->abort(reason);
  if (tied_) tied_->abort(reason);
}

void Pipeline::perform(const PipelineAction& action, Where where) {
  using enum PipelineOp;
  const auto begin = is_tracing() ? TraceClock::now() : TraceClock::time_point{};
  try {
    if (is_compute(action.op))
      compute(action, where);
    else if (action.op == send_activation || action.op == send_gradient)
      send(action, where);
    else
      receive(action, where);
  } catch (const CollectiveError&) {
    throw;  // the message already names rank and reason
  } catch (const std::exception&) {
    rethrow_of(concat("Pipeline: ", action), std::current_exception(), where);
  }
  if (is_tracing())
    trace_span(concat(action), is_compute(action.op) ? "pipeline" : "communication", begin,
               TraceClock::now());
}

void Pipeline::compute(const PipelineAction& action, Where where) {
  const auto& [op, s, b] = action;
  // Without messages, a stage and the next one are both on the only rank.
  const bool alone = plan_.num_devices == 1;
  if (op == PipelineOp::forward) {
    stages_.forward(s, b, where);
    if (alone && s + 1 < plan_.num_stages)
      stages_.input(s + 1, b) = stages_.output(s, b).detach(where);
    return;
  }
  if (op == PipelineOp::backward) stages_.backward(s, b, where);
  if (op == PipelineOp::backward_input) stages_.backward_input(s, b, where);
  if (op == PipelineOp::backward_weight) return stages_.backward_weight(s, b, where);
  if (alone && s > 0) stages_.grad_output(s - 1, b) = std::move(stages_.grad_input(s, b));
}

// --- Messages ----------------------------------------------------------------------------------

void Pipeline::send(const PipelineAction& action, Where where) {
  const auto& [op, s, b] = action;
  const bool forwards = op == PipelineOp::send_activation;
  Tensor sent = forwards ? stages_.output(s, b).detach(where) : std::move(stages_.grad_input(s, b));
  if (!sent.defined()) sent = empty({0}, {.dtype = kNoGradient, .device = device_}, where);
  // Compute the value before queueing the message: the communication stream's GPU stream would wait
  // for the next stage's pass.
  const Tensor value = packed(sent, where);
  (forwards ? activations_ : gradients_)
      ->run(
          concat(action),
          [this, value, where, to = plan_.device_of(forwards ? s + 1 : s - 1)](Communicator& comm) {
            // On a GPU the communication stream's GPU stream reads it, perhaps after this thread
            // has released it.
            if (device_.is_cuda())
              record_stream(value.storage()->data(), current_stream(device_), where);
            send_tensor(comm, value, to, where);
          },
          where);
}

void Pipeline::receive(const PipelineAction& action, Where where) {
  const auto& [op, s, b] = action;
  const bool forwards = op == PipelineOp::recv_activation;
  Tensor value;
  (forwards ? activations_ : gradients_)
      ->run(
          concat(action),
          [&, from = plan_.device_of(forwards ? s - 1 : s + 1)](Communicator& comm) {
            value = recv_tensor(comm, from, device_, where);
          },
          where)
      .wait();
  // The communication stream's GPU stream made it.
  if (device_.is_cuda()) record_stream(value.storage()->data(), current_stream(device_), where);
  if (!forwards && value.dtype() == kNoGradient) value = {};
  (forwards ? stages_.input(s, b) : stages_.grad_output(s, b)) = value;
}

// --- Evaluation --------------------------------------------------------------------------------

Tensor Pipeline::forward(const Tensor& x, Where at) {
  using enum PipelineOp;
  const NoGradGuard guard;
  std::vector<Tensor> outputs(static_cast<std::size_t>(plan_.num_micro_batches));
  Tensor all;
  run("forward", [&] {
    stages_.begin(x, {});
    for (const PipelineAction& action : actions()) {
      const auto& [op, s, b] = action;
      if (op != PipelineOp::forward && op != send_activation && op != recv_activation) continue;
      perform(action, at);
      const bool is_last = s == plan_.num_stages - 1;
      if (op == PipelineOp::forward && is_last)
        outputs[static_cast<std::size_t>(b)] = stages_.output(s, b);
      const bool is_used = op == send_activation || plan_.num_devices == 1 || is_last;
      if (is_used && op != recv_activation) stages_.drop(s, b);
    }
    const Tensor last = outputs.back();  // alone not empty, or all are
    std::erase_if(outputs,
                  [&](const Tensor& y) { return !y.defined() || (y.size(0) == 0 && !y.is(last)); });
    if (!outputs.empty()) all = concatenate(outputs, 0, at);
  });
  return all;
}

// --- Operations on all stages ------------------------------------------------------------------

std::vector<Tensor> Pipeline::parameters() const {
  std::vector<Tensor> all;
  for (const auto& [index, stage] : stages_.modules())
    for (const Tensor& parameter : stage->parameters())
      if (parameter.requires_grad() &&
          std::none_of(all.begin(), all.end(), [&](const Tensor& x) { return x.is(parameter); }))
        all.push_back(parameter);
  return all;
}

void Pipeline::train(bool training) {
  for (const auto& [index, stage] : stages_.modules()) stage->train(training);
}

double Pipeline::clip_grad_norm(double max_norm, Where where) {
  nn::check_max_norm(max_norm, where);
  std::vector<Tensor> gradients;
  kernels::Norm norm;
  run("clip_grad_norm", [&] {
    nn::check_not_partial("clip_grad_norm: a pipeline's gradients must be whole", parameters(),
                          {nn::PartOf::stage}, where);
    for (const Tensor& parameter : parameters()) {
      // Scaling the zeros of an unused parameter would make them a gradient.
      if (!leaf_of(parameter)->has_gradient()) continue;
      gradients.push_back(parameter.grad());
      if (!tied_->is_repeated(parameter)) norm.add(kernels::norm_of(gradients.back(), where));
    }
    norm = joint_norm(norm, comm_, where);
  });
  // All ranks get the same norm, and may skip this step together.
  return nn::clip_to_norm(gradients, norm, max_norm, where);
}

void Pipeline::sync_buffers(Where where) {
  run("sync_buffers", [&] {
    for (auto& [index, replicas] : replicas_) replicas.sync_buffers(where);
  });
}

PipelineTimes Pipeline::times(Where where) {
  RINGRAD_CHECK(clock_, ValueError, where, "times: the pipeline must measure; got options without");
  PipelineTimes times;
  run("times", [&] { times = clock_->times(plan_, where); });
  return times;
}

}  // namespace ringrad
