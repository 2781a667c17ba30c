// A large batch in k parts: each rank adds up the gradients of its parts, and only the last part's
// backward pass communicates. The result is that of the whole batch at once.
//
//     gradient_accumulation --world-size 2 --parts 4                   ranks are threads
//     gradient_accumulation --world-size 2 --device cuda               a GPU each
//     ringrun -n 2 gradient_accumulation [--backend gloo]              processes

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Outcome {
  std::vector<float> weights;
  CommunicationSummary summary;
  float loss;
};

Outcome train(Communicator& comm, std::int64_t batch_size, int num_parts, int epochs) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  const TensorDataset data = spirals(1024, 3);
  DistributedSampler sampler(data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = batch_size, .drop_last = true});
  Tensor loss;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      for (int part = 0; part < num_parts; ++part) {
        std::optional<DistributedDataParallel::NoSync> alone;
        if (part + 1 < num_parts) alone.emplace(model);  // this pass stays on this rank
        const std::int64_t begin = part * batch_size / num_parts,
                           end = (part + 1) * batch_size / num_parts;
        loss = cross_entropy(model(slice(x, 0, begin, end)), slice(y, 0, begin, end));
        (loss / num_parts).backward();
      }
      optimizer.step();
    }
  const Tensor mean = loss.detach();
  comm.all_reduce(mean, ReduceOp::mean);
  return {net.parameters().front().to_vector<float>(), model.summary(), mean.item<float>()};
}

void compare(Communicator& comm, int num_parts, int epochs) {
  const std::int64_t rows = std::max(256 / (comm.world_size() * num_parts), 1);  // of a part
  const Outcome whole = train(comm, rows * num_parts, 1, epochs),
                parts = train(comm, rows * num_parts, num_parts, epochs);
  float difference = 0;
  for (std::size_t i = 0; i < whole.weights.size(); ++i)
    difference = std::max(difference, std::abs(whole.weights[i] - parts.weights[i]));
  if (comm.rank() > 0) return;
  const auto num_steps = whole.summary.num_passes;
  std::cout << num_steps << " steps of " << num_parts << " parts: " << num_steps * num_parts
            << " backward passes, " << parts.summary.num_passes << " reductions\n"
            << "loss of the last part: " << parts.loss << '\n'
            << "weights differ by at most " << difference << " from those learned without parts\n";
}

int main(int argc, char** argv) {
  int num_parts = 4, epochs = 4;
  Job job("Trains a small network data parallel, with batches that are computed in parts.");
  job.options().add_option("--parts", num_parts, "parts of each batch")->check(CLI::Range(1, 16));
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { compare(comm, num_parts, epochs); });
}
