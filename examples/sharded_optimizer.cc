// Sharded optimizer (ZeRO-1): every rank trains the whole model and keeps 1/n of Adam's state. For
// comparison DistributedDataParallel trains the same model with the whole state on every rank: the
// parameters have the same bits.
//
//     sharded_optimizer --world-size 4                         ranks are threads
//     sharded_optimizer --world-size 4 --device cuda           a GPU each
//     ringrun -n 4 sharded_optimizer [--backend gloo]          processes

#include <cstring>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(2, 100), nn::ReLU(), nn::Linear(100, 100), nn::ReLU(),
                        nn::Linear(100, 3));
}

bool same_bits(const nn::Module& a, const nn::Module& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    const auto x = a.parameters()[i].to_vector<float>(), y = b.parameters()[i].to_vector<float>();
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

void train(Communicator& comm, int epochs) {
  manual_seed(1);
  nn::Sequential net = make_net(), replicated_net = make_net();
  replicated_net.load_state_dict(net.state_dict());
  ShardedOptimizer optimizer(net, comm, [](const std::vector<Tensor>& part) {
    return std::make_unique<nn::Adam>(part, nn::AdamOptions{.learning_rate = 0.01});
  });
  DistributedDataParallel replica(replicated_net, comm);
  nn::Adam replicated(replicated_net.parameters(), {.learning_rate = 0.01});

  const TensorDataset data = spirals(1024, 3);
  DistributedSampler sampler(data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = 128 / comm.world_size()});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    Tensor loss;
    for (const Batch& batch : loader) {
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      loss = cross_entropy(net(x), y);
      loss.backward();   // this rank's gradients; nothing is sent
      optimizer.step();  // averages them, steps on this rank's part, and gathers the values

      replicated.zero_grad();
      cross_entropy(replica(x), y).backward();
      replicated.step();
    }
    const Tensor mean = loss.detach();
    comm.all_reduce(mean, ReduceOp::mean);
    if (comm.rank() == 0)
      std::cout << "epoch " << epoch << ": loss of the last batch " << mean.item<float>() << '\n';
  }
  const Options on_host{.dtype = DType::int64, .device = "cpu"};
  const Tensor state_bytes = empty({comm.world_size()}, on_host);
  comm.all_gather(state_bytes, full({1}, optimizer.state_bytes(), on_host));
  const bool identical = replicas_identical(net, comm);
  const bool like_replicated = same_bits(net, replicated_net);
  if (comm.rank() == 0) {
    std::cout << "bytes of Adam's state on each rank: " << replicated.state_bytes()
              << " replicated, sharded";
    for (const auto bytes : state_bytes.to_vector<std::int64_t>()) std::cout << ' ' << bytes;
    std::cout << '\n'
              << comm.world_size() << " replicas " << (identical ? "are" : "are not")
              << " identical, and their bits " << (like_replicated ? "are" : "are not")
              << " those with replicated state\n";
  }
}

int main(int argc, char** argv) {
  int epochs = 4;
  Job job("Trains a small network with Adam's state divided between the ranks.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { train(comm, epochs); });
}
