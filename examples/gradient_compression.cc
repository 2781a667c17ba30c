// Fewer bytes on the link: the same training with full gradients, 16-bit gradients, only the
// largest gradients, and low-rank factors.
//
//     gradient_compression --world-size 4                              ranks are threads
//     gradient_compression --world-size 4 --device cuda                a GPU each
//     ringrun -n 4 gradient_compression [--backend gloo]               processes

#include <iomanip>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

// The bytes that this rank has passed to collectives since call number `after`.
std::int64_t bytes_sent(const Communicator& comm, std::uint64_t after) {
  std::int64_t bytes = 0;
  for (const FlightRecord& record : comm.flight().records()) {
    if (record.sequence <= after) continue;
    const auto whole = record.call.count * static_cast<std::int64_t>(size_bytes(record.call.dtype));
    bytes += record.call.op == CollectiveOp::all_gather ? whole / comm.world_size() : whole;
  }
  return bytes;
}

void train(Communicator& comm, const std::string& name, const CommunicationHook& hook, int epochs) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                     nn::Linear(64, 3));
  // Every pass reaches all parameters, so the ranks need not exchange which ones they reached: they
  // send gradients only.
  DistributedDataParallel model(net, comm, {.allow_unused = false});
  if (hook) model.set_communication_hook(hook);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});

  const TensorDataset data = spirals(1024, 3);
  DistributedSampler sampler(data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = 128 / comm.world_size()});
  Tensor loss;
  std::uint64_t last_call = 0;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      loss = cross_entropy(model(x), y);
      last_call = comm.flight().records().back().sequence;
      loss.backward();
      optimizer.step();
    }
  const std::int64_t bytes = bytes_sent(comm, last_call);
  const Tensor mean = loss.detach();
  comm.all_reduce(mean, ReduceOp::mean);
  const bool identical = replicas_identical(net, comm);
  if (comm.rank() == 0)
    std::cout << std::left << std::setw(16) << name << std::right << std::setw(6) << bytes
              << " bytes a step, loss " << std::setw(9) << mean.item<float>()
              << (identical ? ", replicas identical\n" : ", replicas differ\n");
}

int main(int argc, char** argv) {
  int epochs = 20;
  Job job("Trains a small network data parallel, with several compressions of its gradients.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) {
    train(comm, "as they are", {}, epochs);
    train(comm, "float16", compress_to(DType::float16), epochs);
    train(comm, "largest 10 %", top_k_compression({.ratio = 0.1}), epochs);
    train(comm, "PowerSGD, rank 4", power_sgd({.rank = 4}), epochs);
  });
}
