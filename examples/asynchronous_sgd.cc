// Asynchronous SGD: rank 0 serves the parameters, and the other ranks train at their own speed:
// worker r computes each gradient r times. With staleness 0 all workers go as fast as the slowest.
// With a larger staleness the fast workers run ahead, within bounds, and see older parameters.
//
//     asynchronous_sgd --world-size 4                  a server and three workers, as threads
//     asynchronous_sgd --world-size 4 --device cuda    a GPU each
//     ringrun -n 4 asynchronous_sgd [--backend gloo]   processes, over shared memory or TCP
//     mpirun -n 4 asynchronous_sgd --backend mpi

#include <iomanip>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Data {
  Tensor x, y;
};

float loss_of(nn::Module& net, const Data& data) {
  const NoGradGuard guard;
  return cross_entropy(net(data.x), data.y).item<float>();
}

void work(nn::Module& net, Communicator& comm, const Data& data, int num_steps) {
  ParameterClient client(net, comm);
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  for (int step = 0; step < num_steps; ++step) {
    client.pull();
    const Tensor some = randint(0, data.x.size(0), {32}, generator);
    const Tensor x = index_select(data.x, 0, some), y = index_select(data.y, 0, some);
    for (int repeat = 0; repeat < comm.rank(); ++repeat) {
      net.zero_grad();
      cross_entropy(net(x), y).backward();
    }
    client.push();
  }
  client.finish();
}

void print(const ParameterServerReport& report, std::int64_t staleness, float loss) {
  std::cout << std::fixed << std::setprecision(4) << "staleness " << std::setw(2) << staleness
            << ": loss " << loss << "; steps of the workers";
  for (std::size_t rank = 1; rank < report.num_gradients.size(); ++rank)
    std::cout << ' ' << report.num_gradients[rank];
  const std::vector<std::int64_t>& pulls = report.num_pulls_at_lead;
  double sum = 0, num_pulls = 0;
  for (std::size_t lead = 0; lead < pulls.size(); ++lead) {
    sum += static_cast<double>(pulls[lead]) * static_cast<double>(lead);
    num_pulls += static_cast<double>(pulls[lead]);
  }
  std::cout << std::setprecision(1) << "; ahead of the slowest by " << sum / num_pulls
            << " steps on average, " << pulls.size() - 1 << " at most" << std::endl;
}

void train(Communicator& comm, const Data& data, std::int64_t staleness, int num_steps) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
  if (comm.rank() > 0) return work(net, comm, data, num_steps);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.5});
  const auto report = serve_parameters(net, optimizer, comm, {.staleness = staleness});
  print(report, staleness, loss_of(net, data));
}

int main(int argc, char** argv) {
  int num_steps = 200;
  Job job("Trains on points of three spirals with a parameter server and workers of unequal speed.",
          4);
  job.options().add_option("--steps", num_steps, "of each worker")->check(option::steps());
  return job.run(argc, argv, [&](Communicator& comm) {
    const TensorDataset spirals = ringrad::spirals(1024, 3);
    const Data data{to(spirals.tensors()[0], default_device()),
                    to(spirals.tensors()[1], default_device())};
    for (const std::int64_t staleness : {0, 1, 4, 16}) train(comm, data, staleness, num_steps);
  });
}
