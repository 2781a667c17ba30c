// A data set in which most samples belong to one class, with and without weighted sampling: a
// sample is drawn in proportion to 1 / (size of its class), so that all classes occur equally
// often. The ranks share the draws.
//
//     weighted_sampling --world-size 4           ranks are threads
//     ringrun -n 4 weighted_sampling             processes
//
//                   seen in training       accuracy by class
//     all alike     0.90  0.07  0.03       0.96  0.61  0.41
//     weighted      0.33  0.34  0.33       0.73  0.72  0.91

#include <algorithm>
#include <cstdio>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kClasses = 3;
using PerClass = std::vector<double>;

// Three overlapping clouds, with the given numbers of samples.
TensorDataset clouds(const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  const DefaultDeviceGuard guard{Device()};
  std::vector<std::int64_t> chosen;  // sample i of blobs is of class i mod kClasses
  for (std::int64_t c = 0; c < kClasses; ++c)
    for (std::int64_t i = 0; i < sizes[static_cast<std::size_t>(c)]; ++i)
      chosen.push_back(kClasses * i + c);
  const std::int64_t most = *std::max_element(sizes.begin(), sizes.end());
  return TensorDataset(blobs(kClasses * most, kClasses, 0.7, seed).fetch(chosen).tensors);
}

// Trains on this rank's share of the draws; returns each class's part of all draws of all ranks.
PerClass train(nn::Module& net, const TensorDataset& data, const std::vector<double>& weights,
               int epochs, Communicator& comm) {
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  DistributedSampler sampler = distributed_weighted_sampler(
      weights, data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = 48 / comm.world_size()});
  const Tensor seen = zeros({kClasses}, {.dtype = DType::float64, .device = Device()});
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      cross_entropy(model(x), y).backward();
      optimizer.step();
      for (const auto c : batch.target().to_vector<std::int64_t>()) ++seen.data<double>()[c];
    }
  comm.all_reduce(seen);
  return div(seen, sum(seen)).to_vector<double>();
}

// The fraction of each class's test samples that is recognised.
PerClass accuracy(nn::Module& net) {
  constexpr std::int64_t kSize = 100;
  const TensorDataset test = clouds({kSize, kSize, kSize}, 2);
  const Tensor logits = to(net(to(test.tensors()[0], default_device())).detach(), Device());
  const auto predicted = argmax(logits, 1).to_vector<std::int64_t>();
  const auto expected = test.tensors()[1].to_vector<std::int64_t>();
  PerClass right(kClasses);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (predicted[i] == expected[i]) right[static_cast<std::size_t>(expected[i])] += 1.0 / kSize;
  return right;
}

void compare(int epochs, Communicator& comm) {
  const std::vector<std::int64_t> sizes{540, 45, 15};
  const TensorDataset data = clouds(sizes, 1);
  if (comm.rank() == 0) std::printf("              seen in training       accuracy by class\n");
  for (const char* const kind : {"all alike", "weighted"}) {
    std::vector<double> weights;
    for (const auto c : data.tensors()[1].to_vector<std::int64_t>())
      weights.push_back(
          kind[0] == 'w' ? 1.0 / static_cast<double>(sizes[static_cast<std::size_t>(c)]) : 1);
    manual_seed(1);
    nn::Sequential net(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, kClasses));
    const PerClass seen = train(net, data, weights, epochs, comm), right = accuracy(net);
    if (comm.rank() == 0)
      std::printf("%-12s  %.2f  %.2f  %.2f       %.2f  %.2f  %.2f\n", kind, seen[0], seen[1],
                  seen[2], right[0], right[1], right[2]);
  }
}

int main(int argc, char** argv) {
  int epochs = 8;
  Job job("Trains on a data set with rare classes, with and without weighted sampling.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { compare(epochs, comm); });
}
