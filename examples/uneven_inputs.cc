// Ranks have different amounts of data, rank 0 the least. Ranks that are done take part in the
// steps of the others.
//
//     uneven_inputs --world-size 3                                     ranks are threads
//     uneven_inputs --world-size 3 --device cuda                       a GPU each
//     ringrun -n 3 uneven_inputs [--backend gloo]                      processes

#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

void train(Communicator& comm, int epochs) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  const TensorDataset own = spirals(200 + 100 * comm.rank(), 3, /*noise=*/0.02,
                                    /*seed=*/static_cast<std::uint64_t>(comm.rank()));
  RandomSampler sampler(own.size());
  DataLoader loader(own, sampler, {.batch_size = 32});
  std::int64_t num_joined = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    Join join(model);
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      cross_entropy(model(x), y).backward();  // an average over the samples of all ranks
      optimizer.step();
    }
    num_joined += join.finish([&] { optimizer.step(); });
  }
  std::cout << concat("rank ", comm.rank(), ": ", own.size(), " samples, ", loader.size() * epochs,
                      " batches, ", num_joined, " steps without data\n")
            << std::flush;

  const NoGradGuard guard;
  const auto& points = own.tensors();
  const Tensor x = to(points.front(), default_device()), y = to(points.back(), default_device());
  const Tensor loss = cross_entropy(net(x), y);
  comm.all_reduce(loss, ReduceOp::mean);
  const bool identical = replicas_identical(net, comm);
  if (comm.rank() == 0)
    std::cout << "loss " << loss.item<float>() << "; " << comm.world_size() << " replicas "
              << (identical ? "are" : "are not") << " identical, bit by bit\n";
}

int main(int argc, char** argv) {
  int epochs = 4;
  Job job("Trains a small network data parallel on ranks with unequally many samples.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { train(comm, epochs); });
}
