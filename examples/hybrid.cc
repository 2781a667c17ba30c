// Data parallel times pipeline: replicas of a pipeline, each with its part of the batch. A mesh
// gives every rank its place on both axes; a stage's gradients are averaged over its replicas as
// soon as its last backward pass has computed them.
//
//                  pipeline 0     1
//         data 0     rank 0 ->  rank 1        stages 0 and 1 of the first replica
//         data 1     rank 2 ->  rank 3        of the second
//
//     hybrid --world-size 4 --stages 2                    ranks are threads
//     hybrid --world-size 4 --stages 2 --device cuda      a GPU each
//     ringrun -n 4 hybrid --stages 2 --sharded            processes; the optimizer's state is split

#include <iostream>
#include <memory>

#include "ringrad/examples/job.h"
#include "ringrad/examples/shining_quarter.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kGlobalBatch = 64;
constexpr nn::AdamOptions kAdam{.learning_rate = 0.01};

Tensor loss_of(const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }

struct Settings {
  int stages = 2;
  int micro_batches = 4;
  int steps = 12;
  bool sharded = false;
};

void train(Communicator& comm, const Settings& settings) {
  if (comm.world_size() % settings.stages != 0)
    throw ValueError(concat("hybrid: --stages must divide the number of ranks; got ",
                            settings.stages, " and ", comm.world_size()),
                     Where::current());
  if (kGlobalBatch % (comm.world_size() / settings.stages) != 0)
    throw ValueError(concat("hybrid: replicas must divide ", kGlobalBatch, " images; got ",
                            comm.world_size() / settings.stages),
                     Where::current());
  const Mesh mesh(comm,
                  {{"data", comm.world_size() / settings.stages}, {"pipeline", settings.stages}});
  Communicator &replicas = mesh.axis("data"), &line = mesh.axis("pipeline");

  manual_seed(1);
  nn::Sequential net = deep_convnet();
  const Tensor sample = shining_quarters(4, 0).images;
  const auto layers = profile_layers(net, sample, comm);
  auto stages =
      nn::Sequential::split(std::move(net), optimal_partition(layers, settings.stages).starts);
  nn::Sequential& own = stages[static_cast<std::size_t>(line.rank())];

  // ZeRO-1 averages gradients itself when it steps; without it the pipeline averages them.
  Pipeline pipeline(stages, line, one_forward_one_backward(settings.stages, settings.micro_batches),
                    loss_of, {.replicas = settings.sharded ? nullptr : &replicas});
  std::unique_ptr<ShardedOptimizer> sharded;
  std::unique_ptr<nn::Adam> replicated;
  if (settings.sharded)
    sharded = std::make_unique<ShardedOptimizer>(own, replicas, [](const auto& parameters) {
      return std::make_unique<nn::Adam>(parameters, kAdam);
    });
  else
    replicated = std::make_unique<nn::Adam>(pipeline.parameters(), kAdam);

  for (int step = 0; step < settings.steps; ++step) {
    const LabelledImages all = shining_quarters(kGlobalBatch, static_cast<std::uint64_t>(step) + 1);
    const std::int64_t share = kGlobalBatch / replicas.world_size(),
                       begin = replicas.rank() * share;
    if (replicated) replicated->zero_grad();
    const Tensor loss = pipeline.train_step(slice(all.images, 0, begin, begin + share),
                                            slice(all.labels, 0, begin, begin + share));
    if (replicated) replicated->step();
    if (sharded) sharded->step();
    replicas.all_reduce(loss, ReduceOp::mean);
    if (comm.rank() == 0)
      std::cout << "step " << step + 1 << ": loss " << loss.item<float>() << '\n';
  }

  const bool identical = replicas_identical(own, replicas);
  const Tensor all_identical = full({1}, identical, {.dtype = DType::int32, .device = "cpu"});
  comm.all_reduce(all_identical, ReduceOp::min);
  if (comm.rank() == 0)
    std::cout << mesh.size("data") << " replicas of " << settings.stages << " stages "
              << (all_identical.item<int>() == 1 ? "are" : "are not") << " identical, bit by bit\n";
}

int main(int argc, char** argv) {
  Settings settings;
  Job job("Trains a small ConvNet, data parallel times pipeline.", 4);
  job.options().add_option("--stages", settings.stages)->check(option::whole(1, kMaxRanks));
  job.options()
      .add_option("--micro-batches", settings.micro_batches)
      ->check(option::micro_batches());
  job.options().add_option("--steps", settings.steps)->check(option::steps());
  job.options().add_flag("--sharded", settings.sharded,
                         "deal the optimizer's state to the replicas");
  return job.run(argc, argv, [&](Communicator& comm) { train(comm, settings); });
}
