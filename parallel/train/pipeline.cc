#include "parallel/train/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/movement.h"
#include "core/allocator_cuda.h"
#include "core/stream.h"
#include "core/trace.h"
#include "parallel/comm/chaos.h"
#include "parallel/comm/communication_lane.h"
#include "parallel/comm/rethrow.h"
#include "parallel/comm/same_text.h"
#include "parallel/comm/tensor_message.h"
#include "parallel/plan/pipeline_check.h"
#include "parallel/train/pipeline_clock.h"
#include "parallel/train/pipeline_stages.h"

namespace ringrad {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::ostringstream out;
  out << value;
  return std::move(out).str();
}

bool has_messages(const PipelinePlan& plan) {
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions)
      if (!is_compute(action.op)) return true;
  return false;
}

PipelinePlan proved(PipelinePlan plan, int world_size, std::size_t num_stages, Where where) {
  RINGRAD_CHECK(plan.num_devices == world_size, ValueError, where,
                "Pipeline: the plan must be for as many devices as there are ranks; got ",
                plan.num_devices, " and ", world_size);
  RINGRAD_CHECK(plan.num_stages == static_cast<int>(num_stages), ValueError, where,
                "Pipeline: there must be as many stages as the plan has; got ", num_stages, " and ",
                plan.num_stages);
  if (!has_messages(plan)) plan = with_messages(plan);
  const auto wrong = pipeline_check(plan, kTensorsUnderWay);
  RINGRAD_CHECK(!wrong, ValueError, where, "Pipeline: the plan must be proved; got ",
                text_of(*wrong));
  return plan;
}

std::vector<nn::Module*> addresses(std::vector<nn::Sequential>& stages) {
  std::vector<nn::Module*> modules;
  for (nn::Sequential& stage : stages) modules.push_back(&stage);
  return modules;
}

}  // namespace

// What a rank does: the plan's actions, one after the other.
class Pipeline::Executor {
 public:
  Executor(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan, Loss loss,
           const PipelineOptions& options, Where where);

  Tensor train_step(const Tensor& x, const Tensor& target, Where where);
  Tensor forward(const Tensor& x, Where where);

  void sync_buffers(Where where) {
    for (auto& [index, averaging] : averaging_) averaging.replicas->sync_buffers(where);
  }

  const PipelinePlan& plan() const { return plan_; }
  const PipelineStages& stages() const { return stages_; }
  const std::optional<PipelineClock>& clock() const { return clock_; }

 private:
  // A stage's gradients are averaged over the replicas in its last backward pass of a step.
  struct Averaging {
    std::unique_ptr<DistributedDataParallel> replicas;
    std::optional<DistributedDataParallel::NoSync> not_yet;
  };

  const std::vector<PipelineAction>& actions() const {
    return plan_.actions[static_cast<std::size_t>(comm_.rank())];
  }

  void add_stages(const std::vector<nn::Module*>& stages, Where where);
  void add_replicas(const PipelineOptions& options, Where where);
  void begin_step(Where where);
  template <class Body>
  void run(const char* what, Body body);
  void perform(const PipelineAction& action, Where where);
  void compute(const PipelineAction& action, Where where);
  void send(const PipelineAction& action, Where where);
  void receive(const PipelineAction& action, Where where);
  Tensor receive_tensor(const PipelineAction& action, CommunicationLane& lane, int from,
                        Where where) const;
  void abort(const std::string& reason) const noexcept;

  Communicator& comm_;
  const PipelinePlan plan_;
  Communicator* const replicas_;
  const bool broadcasts_buffers_;
  PipelineStages stages_;
  Device device_ = default_device();
  std::optional<TiedParameters> tied_;
  std::map<int, Averaging> averaging_;        // by stage; those without parameters are not there
  std::map<int, std::size_t> last_backward_;  // by stage: an index into actions()
  std::optional<PipelineClock> clock_;
  // Activations and gradients may pass each other, so each kind has a group and a lane of its own.
  const std::unique_ptr<Communicator> activation_comm_, gradient_comm_;
  std::optional<CommunicationLane> activations_, gradients_;
};

// --- Construction ------------------------------------------------------------------------------------------------

Pipeline::Executor::Executor(const std::vector<nn::Module*>& stages, Communicator& comm,
                             PipelinePlan plan, Loss loss, const PipelineOptions& options,
                             Where where)
    : comm_(comm),
      plan_(proved(std::move(plan), comm.world_size(), stages.size(), where)),
      replicas_(options.replicas),
      broadcasts_buffers_(options.data_parallel.broadcast_buffers),
      stages_(plan_.num_stages, plan_.num_micro_batches, std::move(loss), options.checkpoint),
      activation_comm_(comm.split(0, 0, where)),
      gradient_comm_(comm.split(0, 0, where)) {
  add_stages(stages, where);
  auto ties = options.tied;
  if (std::find(stages.begin(), stages.end(), nullptr) == stages.end())
    for (auto& tie : shared_parameters(stages)) ties.push_back(std::move(tie));

  std::string text = text_of(plan_) + (device_.is_cpu() ? "on CPUs, " : "on GPUs, ") +
                     (options.checkpoint ? "checkpoint\n" : "no checkpoint\n");
  for (const auto& tie : ties)
    for (const auto& [stage, name] : tie) text += concat("tied ", stage, ' ', name, '\n');
  check_same_text("Pipeline: all ranks must have rank 0's plan and options", text, comm, where);

  // From the first collective on GPUs on, messages go between them.
  if (device_.is_cuda())
    for (Communicator* group : {activation_comm_.get(), gradient_comm_.get()})
      group->broadcast(zeros({1}, {.device = device_}, where), 0, where);
  for (std::size_t i = 0; i < actions().size(); ++i) {
    const PipelineAction& action = actions()[i];
    RINGRAD_CHECK(action.op != PipelineOp::backward_input || !options.checkpoint, ValueError, where,
                  "Pipeline: with checkpoint, backward passes must be whole; got ", action);
    if (action.op == PipelineOp::backward || action.op == PipelineOp::backward_weight)
      last_backward_[action.stage] = i;
  }
  if (replicas_) add_replicas(options, where);
  tied_.emplace(ties, stages, comm, where);
  if (options.measure) clock_.emplace(comm, device_);
  activations_.emplace(*activation_comm_, device_, /*overlaps=*/device_.is_cuda());
  gradients_.emplace(*gradient_comm_, device_, /*overlaps=*/device_.is_cuda());
}

void Pipeline::Executor::add_stages(const std::vector<nn::Module*>& stages, Where where) {
  for (int index = comm_.rank(); index < plan_.num_stages; index += comm_.world_size()) {
    nn::Module* const stage = stages[static_cast<std::size_t>(index)];
    RINGRAD_CHECK(stage, ValueError, where, "Pipeline: rank ", comm_.rank(), " must have stage ",
                  index, "; got null");
    stages_.add(index, *stage);
    if (const auto parameters = stage->parameters(); !parameters.empty())
      device_ = parameters.front().device();
  }
}

void Pipeline::Executor::add_replicas(const PipelineOptions& options, Where where) {
  for (const auto& [index, stage] : stages_.modules())
    if (stage->num_parameters() > 0)
      averaging_[index].replicas = std::make_unique<DistributedDataParallel>(
          *stage, *replicas_, options.data_parallel, where);
}

// --- A step ------------------------------------------------------------------------------------------------------

Tensor Pipeline::Executor::train_step(const Tensor& x, const Tensor& target, Where where) {
  Tensor loss = empty({}, {.dtype = DType::float32, .device = device_}, where);
  run("train_step", [&] {
    stages_.begin(x, target);
    begin_step(where);
    for (std::size_t i = 0; i < actions().size(); ++i) {
      const int stage = actions()[i].stage;
      if (const auto it = averaging_.find(stage);
          it != averaging_.end() && i == last_backward_[stage])
        it->second.not_yet.reset();
      perform(actions()[i], where);
      if (clock_) clock_->mark(where);
    }
    tied_->add_gradients(where);
    if (!stages_.losses().empty()) loss = stages_.mean_loss(where);
    comm_.broadcast(loss, plan_.device_of(plan_.num_stages - 1), where);
  });
  return loss;
}

void Pipeline::Executor::begin_step(Where where) {
  chaos_step();
  for (auto& [index, averaging] : averaging_) {
    if (broadcasts_buffers_ && stages_.modules().at(index)->is_training())
      averaging.replicas->sync_buffers(where);
    averaging.not_yet.emplace(*averaging.replicas);
  }
  if (clock_) clock_->begin_step(where);
}

// An error ends the other ranks' steps, too.
template <class Body>
void Pipeline::Executor::run(const char* what, Body body) {
  struct Clear {
    Executor& executor;
    ~Clear() {
      executor.stages_.clear();
      for (auto& [index, averaging] : executor.averaging_) averaging.not_yet.reset();
    }
  } const clear{*this};
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

void Pipeline::Executor::abort(const std::string& reason) const noexcept {
  for (Communicator* comm : {activation_comm_.get(), gradient_comm_.get(), &comm_, replicas_})
    if (comm) comm->abort(reason);
  tied_->abort(reason);
}

void Pipeline::Executor::perform(const PipelineAction& action, Where where) {
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
    throw;  // it says who and what
  } catch (const std::exception&) {
    rethrow_of(concat("Pipeline: ", action), std::current_exception(), where);
  }
  if (is_tracing())
    trace_span(concat(action), is_compute(action.op) ? "pipeline" : "communication", begin,
               TraceClock::now());
}

void Pipeline::Executor::compute(const PipelineAction& action, Where where) {
  const auto& [op, s, b] = action;
  // Without messages, a stage and the next one are neighbours on the only rank.
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

// --- Messages ----------------------------------------------------------------------------------------------------

void Pipeline::Executor::send(const PipelineAction& action, Where where) {
  const auto& [op, s, b] = action;
  const bool forwards = op == PipelineOp::send_activation;
  // What is to be computed comes before the lane, whose stream would wait for the next stage's pass.
  const Tensor value = packed(
      forwards ? stages_.output(s, b).detach(where) : std::move(stages_.grad_input(s, b)), where);
  (forwards ? activations_ : gradients_)
      ->run(
          concat(action),
          [&, to = plan_.device_of(forwards ? s + 1 : s - 1)](Communicator& comm) {
            // On a GPU the lane's stream reads it, perhaps after this thread has let go of it.
            if (device_.is_cuda())
              record_stream(value.storage()->data(), current_stream(device_), where);
            send_tensor(comm, value, to, where);
          },
          where);
}

void Pipeline::Executor::receive(const PipelineAction& action, Where where) {
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
  // It was made on the lane's stream.
  if (device_.is_cuda()) record_stream(value.storage()->data(), current_stream(device_), where);
  (forwards ? stages_.input(s, b) : stages_.grad_output(s, b)) = value;
}

// --- Evaluation --------------------------------------------------------------------------------------------------

Tensor Pipeline::Executor::forward(const Tensor& x, Where where) {
  using enum PipelineOp;
  const NoGrad guard;
  std::vector<Tensor> outputs;
  run("forward", [&] {
    stages_.begin(x, {});
    for (const PipelineAction& action : actions()) {
      const auto& [op, s, b] = action;
      if (op != PipelineOp::forward && op != send_activation && op != recv_activation) continue;
      perform(action, where);
      const bool is_last = s == plan_.num_stages - 1;
      if (op == PipelineOp::forward && is_last) outputs.push_back(stages_.output(s, b));
      const bool is_used = op == send_activation || plan_.num_devices == 1 || is_last;
      if (is_used && op != recv_activation) stages_.drop(s, b);
    }
  });
  return outputs.empty() ? Tensor() : concatenate(outputs, 0, where);
}

// --- Pipeline ----------------------------------------------------------------------------------------------------

Pipeline::Pipeline(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : executor_(std::make_unique<Executor>(stages, comm, std::move(plan), std::move(loss), options,
                                           where)) {}
Pipeline::Pipeline(std::vector<nn::Sequential>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : Pipeline(addresses(stages), comm, std::move(plan), std::move(loss), options, where) {}
Pipeline::~Pipeline() = default;

Tensor Pipeline::train_step(const Tensor& x, const Tensor& target, Where where) {
  return executor_->train_step(x, target, where);
}
Tensor Pipeline::forward(const Tensor& x, Where where) { return executor_->forward(x, where); }

std::vector<Tensor> Pipeline::parameters() const {
  std::vector<Tensor> all;
  for (const auto& [index, stage] : executor_->stages().modules())
    for (const Tensor& parameter : stage->parameters())
      if (std::none_of(all.begin(), all.end(), [&](const Tensor& x) { return x.is(parameter); }))
        all.push_back(parameter);
  return all;
}

void Pipeline::train(bool training) {
  for (const auto& [index, stage] : executor_->stages().modules()) stage->train(training);
}

void Pipeline::sync_buffers(Where where) { executor_->sync_buffers(where); }

const PipelinePlan& Pipeline::plan() const { return executor_->plan(); }
const std::vector<Tensor>& Pipeline::micro_batch_losses() const {
  return executor_->stages().losses();
}
int Pipeline::peak_kept() const { return executor_->stages().peak_kept(); }

PipelineTimes Pipeline::times(Where where) const {
  RINGRAD_CHECK(executor_->clock(), ValueError, where,
                "times: the pipeline must measure; got options without");
  return executor_->clock()->times(executor_->plan(), where);
}

}  // namespace ringrad
