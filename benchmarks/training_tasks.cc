#include "ringrad/benchmarks/training_tasks.h"

#include <memory>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"

namespace ringrad::bench {
namespace {

constexpr int kBatches = 8;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kNumbers = 5;

nn::Sequential tiny_mlp() {
  return nn::Sequential(nn::Linear(10, 20), nn::ReLU(), nn::Linear(20, kNumbers));
}

nn::Sequential mlp() {
  return nn::Sequential(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(),
                        nn::Linear(512, kClasses));
}

nn::Sequential convnet() { return nn::convnet(); }

nn::Sequential resnet20() { return nn::resnet20({.channels = 3, .height = 32, .width = 32}); }

struct Batch {
  Tensor x, target;
};

std::vector<Batch> random_batches(const TrainingTask& task) {
  const std::int64_t count = task.batch_shape[0];
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) {
    Tensor x = randn(task.batch_shape);
    batches.push_back(
        {x, task.regression ? randn({count, kNumbers}) : randint(0, kClasses, {count})});
  }
  return batches;
}

}  // namespace

std::function<float()> TrainingTask::build() const {
  manual_seed(0);
  const auto net = std::make_shared<nn::Sequential>(make());
  const auto optimizer = std::make_shared<nn::SGD>(
      net->parameters(),
      nn::SGDOptions{.learning_rate = regression ? 0.01 : 0.005, .momentum = 0.9});
  return [net, optimizer, regression = regression, batches = random_batches(*this),
          next = std::size_t{0}]() mutable {
    const Batch& batch = batches[next++ % kBatches];
    optimizer->zero_grad();
    const Tensor output = net->forward(batch.x);
    const Tensor loss =
        regression ? mse_loss(output, batch.target) : cross_entropy(output, batch.target);
    loss.backward();
    optimizer->step();
    return loss.item();
  };
}

const std::vector<TrainingTask>& training_tasks() {
  static const std::vector<TrainingTask> tasks{
      {.name = "tiny_mlp", .make = tiny_mlp, .batch_shape = {32, 10}, .regression = true},
      {.name = "mlp", .make = mlp, .batch_shape = {128, 784}},
      {.name = "convnet", .make = convnet, .batch_shape = {128, 1, 28, 28}},
      {.name = "resnet20", .make = resnet20, .batch_shape = {64, 3, 32, 32}},
  };
  return tasks;
}

}  // namespace ringrad::bench
