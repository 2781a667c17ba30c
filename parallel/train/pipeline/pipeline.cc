#include "ringrad/parallel/train/pipeline/pipeline.h"

#include <utility>

#include "ringrad/parallel/train/pipeline/pipeline_executor.h"

namespace ringrad {
namespace {

std::vector<nn::Module*> addresses(std::vector<nn::Sequential>& stages) {
  std::vector<nn::Module*> modules;
  for (nn::Sequential& stage : stages) modules.push_back(&stage);
  return modules;
}

}  // namespace

Pipeline::Pipeline(const std::vector<nn::Module*>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : executor_(std::make_unique<PipelineExecutor>(stages, comm, std::move(plan), std::move(loss),
                                                   options, where)) {}
Pipeline::Pipeline(std::vector<nn::Sequential>& stages, Communicator& comm, PipelinePlan plan,
                   Loss loss, const PipelineOptions& options, Where where)
    : Pipeline(addresses(stages), comm, std::move(plan), std::move(loss), options, where) {}
Pipeline::~Pipeline() = default;

Tensor Pipeline::train_step(const Tensor& x, const Tensor& target, Where where) {
  return executor_->train_step(x, target, where);
}
Tensor Pipeline::forward(const Tensor& x, Where at) { return executor_->forward(x, at); }

std::vector<Tensor> Pipeline::parameters() const { return executor_->parameters(); }
double Pipeline::clip_grad_norm(double max_norm, Where where) {
  return executor_->clip_grad_norm(max_norm, where);
}

const std::map<int, nn::Module*>& Pipeline::stages() const { return executor_->stages().modules(); }
bool Pipeline::is_repeated(const Tensor& parameter) const {
  return executor_->is_repeated(parameter);
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

PipelineTimes Pipeline::times(Where where) { return executor_->times(where); }

}  // namespace ringrad
