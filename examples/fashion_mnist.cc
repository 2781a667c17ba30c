// Trains a network on Fashion-MNIST with several replicas whose gradients are averaged by a ring
// all-reduce.
//
//     fashion_mnist --epochs 3 --world-size 2 --model convnet
//     fashion_mnist --device cuda               one GPU per replica, simulated if there is none
//     ringrun -n 2 fashion_mnist --epochs 3     the replicas are processes
//     mpirun -n 2 fashion_mnist --backend mpi   over MPI; or over Gloo
//
// The batch size is that of all replicas together, so the world size changes which rank computes
// what, but not the result. Progress goes to standard error; the last line of standard output is a
// summary in JSON.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"

namespace ringrad {
namespace {

constexpr std::int64_t kMostImages = 1 << 20;

struct Settings {
  std::string model = "convnet";
  int epochs = 3;
  std::int64_t batch_size = 128;
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool augment = false;
  std::uint64_t seed = 0;
  std::string all_reduce = "automatic";
  std::int64_t train_images = 0;  // 0: all
  std::int64_t test_images = 0;
  std::string data = "/usr/share/datasets/fashion-mnist";
};

struct Result {
  double test_accuracy = 0;
  double seconds = 0;
  std::int64_t images = 0;
  bool replicas_identical = true;
};

/// Sums over the examples seen so far.
struct Score {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t examples = 0;

  double mean_loss() const { return loss / static_cast<double>(examples); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(examples); }
};

void add_to(Score& score, const Tensor& logits, const Tensor& targets, double mean_loss) {
  const auto predicted = argmax(logits, 1).to_vector<std::int64_t>();
  const auto expected = targets.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < expected.size(); ++i) score.correct += predicted[i] == expected[i];
  score.loss += mean_loss * static_cast<double>(targets.numel());
  score.examples += targets.numel();
}

/// Accuracy on the whole test set, each rank computing its share.
double evaluate(nn::Module& net, DataLoader& loader, Communicator& comm) {
  const NoGradGuard guard;
  net.eval();
  Score score;
  for (const Batch& batch : loader)
    add_to(score, net(to(batch.input(), default_device())), batch.target(), 0);
  net.train();
  const Tensor counts = empty({2}, {.dtype = DType::int64, .device = Device()});
  counts.data<std::int64_t>()[0] = score.correct;
  counts.data<std::int64_t>()[1] = score.examples;
  comm.all_reduce(counts);
  const auto totals = counts.to_vector<double>();
  return totals[0] / totals[1];
}

/// One rank's part of the training; every rank returns the same accuracy.
Result train(Communicator& comm, const Settings& settings, const Dataset& train_set,
             const Dataset& test_set) {
  using Clock = std::chrono::steady_clock;
  manual_seed(settings.seed);
  const Device device = default_device();
  nn::Sequential net = nn::make_model(settings.model);
  DistributedDataParallel replica(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = settings.learning_rate,
                                       .momentum = settings.momentum,
                                       .weight_decay = settings.weight_decay});

  const Shard shard{.num_replicas = comm.world_size(), .rank = comm.rank()};
  const Shard test_shard{shard.num_replicas, shard.rank, Tail::keep};
  DistributedSampler sampler(train_set.size(), shard, true, settings.seed);
  DistributedSampler test_sampler(test_set.size(), test_shard, false);
  std::vector<Transform> transforms{normalize({kFashionMnistMean}, {kFashionMnistDeviation})};
  DataLoader test_loader(test_set, test_sampler, {.batch_size = 256, .transforms = transforms});
  if (settings.augment)
    transforms.insert(transforms.begin(), {random_crop({28, 28}, 2), random_horizontal_flip()});
  DataLoader loader(train_set, sampler,
                    {.batch_size = settings.batch_size / comm.world_size(),
                     .drop_last = true,
                     .transforms = transforms,
                     .seed = settings.seed});

  const auto schedule = nn::one_cycle(settings.learning_rate, settings.epochs * loader.size() + 1);
  nn::Progress progress(settings.epochs, loader.size());
  const bool shows_progress = comm.rank() == 0;
  Result result;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    const auto start = Clock::now();
    sampler.set_epoch(epoch);
    Score score;
    for (const Batch& batch : loader) {
      optimizer.set_learning_rate(schedule(step++));
      optimizer.zero_grad();
      const Tensor logits = replica(to(batch.input(), device));
      const Tensor loss = cross_entropy(logits, to(batch.target(), device));
      loss.backward();
      optimizer.step();
      add_to(score, logits.detach(), batch.target(), loss.item<double>());
      if (shows_progress)
        progress.step(batch.size() * comm.world_size(),
                      {{"loss", score.mean_loss()}, {"accuracy", score.accuracy()}});
    }
    result.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    result.images += score.examples * comm.world_size();
    replica.sync_buffers();
    result.replicas_identical &= replicas_identical(net, comm);
    result.test_accuracy = evaluate(net, test_loader, comm);
    if (shows_progress) progress.end_epoch({{"test accuracy", result.test_accuracy}});
  }
  return result;
}

Settings parse(Job& job, int argc, char** argv) {
  Settings settings;
  CLI::App& app = job.options();
  app.add_option("--model", settings.model, "network")->check(CLI::IsMember(nn::model_names()));
  app.add_option("--epochs", settings.epochs, "passes over the training set")
      ->check(option::epochs());
  app.add_option("--batch-size", settings.batch_size,
                 "images per step, of all replicas together; a multiple of the world size")
      ->check(option::batch());
  app.add_option("--learning-rate", settings.learning_rate, "peak of the one-cycle schedule")
      ->check(option::number(1e-12, 1e3));
  app.add_option("--momentum", settings.momentum)->check(option::number(0.0, 0.9999));
  app.add_option("--weight-decay", settings.weight_decay)->check(option::number(0, 1e3));
  app.add_flag("--augment", settings.augment, "random crops and flips");
  app.add_option("--seed", settings.seed, "of initial values, order and augmentation")
      ->check(option::seed());
  std::vector<std::string> plans = algorithm_names(Collective::all_reduce);
  plans.insert(plans.begin(), "automatic");
  app.add_option("--all-reduce", settings.all_reduce, "plan of the gradient all-reduce")
      ->check(CLI::IsMember(plans));
  app.add_option("--train-images", settings.train_images,
                 "use the first N only; 0: all, or 2048 on simulated GPUs")
      ->check(option::whole(0, kMostImages));
  app.add_option("--test-images", settings.test_images, "likewise; 0: all, or 512")
      ->check(option::whole(0, kMostImages));
  app.add_option("--data", settings.data, "folder of the four IDX files")
      ->check(CLI::ExistingDirectory);
  job.parse(argc, argv);
  if (settings.all_reduce != "automatic") job.group().all_reduce = settings.all_reduce;
  if (!job.device_of(0).is_cpu() && is_cuda_simulated()) {
    if (settings.train_images == 0) settings.train_images = 2048;
    if (settings.test_images == 0) settings.test_images = 512;
  }
  return settings;
}

/// The first `count` images; all for 0.
TensorDataset first_images(const TensorDataset& all, std::int64_t count) {
  if (count == 0) return all;
  std::vector<Tensor> tensors;
  for (const Tensor& x : all.tensors())
    tensors.push_back(slice(x, 0, 0, std::min(count, all.size())));
  return TensorDataset(std::move(tensors));
}

int run(int argc, char** argv) {
  Job job(
      "Trains a network on Fashion-MNIST with replicas: threads of this process, or, if it was "
      "started by ringrun, "
      "torchrun, mpirun or srun, processes.");
  const Settings settings = parse(job, argc, argv);
  RINGRAD_CHECK(settings.batch_size % job.world_size() == 0, ValueError, Where::current(),
                "--batch-size: must be a multiple of --world-size; got ", settings.batch_size,
                " and ", job.world_size());
  const TensorDataset train_set =
      first_images(fashion_mnist(Split::train, settings.data), settings.train_images);
  const TensorDataset test_set =
      first_images(fashion_mnist(Split::test, settings.data), settings.test_images);
  RINGRAD_CHECK(settings.batch_size <= train_set.size(), ValueError, Where::current(),
                "--batch-size: must not exceed the training set; got ", settings.batch_size,
                " and ", train_set.size(), " images");
  std::optional<Result> first;  // rank 0's, where it is
  const int exit_code = job.run([&](Communicator& comm) {
    const Result own = train(comm, settings, train_set, test_set);
    if (comm.rank() == 0) first = own;
  });
  if (!first) return exit_code;
  const Result& result = *first;
  const auto rounded = [](double value, double places) {
    return std::round(value * places) / places;
  };
  const nlohmann::ordered_json summary{
      {"test_accuracy", rounded(result.test_accuracy, 1e4)},
      {"epochs", settings.epochs},
      {"world_size", job.world_size()},
      {"ranks", job.is_launched() ? "processes" : "threads"},
      {"backend", job.backend()},
      {"images_per_second", std::round(static_cast<double>(result.images) / result.seconds)},
      {"seconds", rounded(result.seconds, 1e2)},
      {"replicas_identical", result.replicas_identical},
      {"model", settings.model},
      {"batch_size", settings.batch_size},
      {"all_reduce", settings.all_reduce},
      {"device", job.device_of(0).is_cpu() ? "cpu" : gpu_name(job.device_of(0))},
      {"seed", settings.seed}};
  std::cout << summary.dump() << std::endl;
  return result.replicas_identical ? exit_code : 1;
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  try {
    return ringrad::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "fashion_mnist: " << error.what() << '\n';
    return 1;
  }
}
