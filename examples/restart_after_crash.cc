// Training that continues after a crash: a checkpoint every few steps, and a launcher that restarts
// the job.
//
//     ringrun -n 2 --max-restarts 1 --inject kill:1@step=7 restart_after_crash --checkpoint r.ckpt
//
// prints the step at which it resumed, and ends with the same parameters, bit by bit, as without
// --inject. With --min-ranks 1 it continues with the remaining rank. Steps since the checkpoint are
// repeated, so the final parameters have seen each sample of each epoch once, whatever happened.
// Started once more, it continues where it ended.
//
// A sampler with equal shares would repeat samples if the rest of an epoch does not divide evenly
// among the remaining ranks. Here shares may differ by one sample (Tail::keep), and a Join weights
// them: a rank without a sample in the last step of an epoch takes part in that of the others.

#include <algorithm>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kSamples = 240, kGlobalBatch = 24;

struct Settings {
  std::string checkpoint = "restart_after_crash.ckpt";
  int epochs = 2, every = 5;
  double deadline_s = 60;
};

// Inputs, the number of each sample, targets.
TensorDataset numbered(const TensorDataset& set) {
  const DefaultDeviceGuard guard{Device()};
  return TensorDataset({set.tensors()[0], arange(set.size()), set.tensors()[1]});
}

// A number in which every bit of every parameter counts.
std::uint64_t checksum(const nn::Module& module) {
  std::uint64_t sum = 0;
  for (const Tensor& parameter : module.parameters())
    for (const float value : parameter.to_vector<float>())
      sum = sum * 1099511628211 + std::bit_cast<std::uint32_t>(value);
  return sum;
}

void train(Communicator& comm, const Settings& settings) {
  const bool prints = comm.rank() == 0;
  manual_seed(static_cast<std::uint64_t>(comm.rank()));  // each rank drops others
  nn::Sequential net(nn::Linear(2, 32), nn::ReLU(), nn::Dropout(0.1), nn::Linear(32, 3));
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  const TensorDataset data = numbered(spirals(kSamples, 3));
  DistributedSampler sampler(
      kSamples, {.num_replicas = comm.world_size(), .rank = comm.rank(), .tail = Tail::keep});
  DataLoader loader(data, sampler, {.batch_size = kGlobalBatch / comm.world_size()});

  SamplerPosition position;
  std::int64_t step = 0;
  Tensor seen = zeros({kSamples}, {.dtype = DType::int64, .device = Device()});  // in this epoch
  nn::Checkpoint checkpoint;
  checkpoint.add("model", net);
  checkpoint.add("optimizer", optimizer);
  checkpoint.add("random", default_generator());
  checkpoint.add("epoch", position.epoch);
  checkpoint.add("consumed", position.consumed);
  checkpoint.add("step", step);
  checkpoint.add("seen", seen);
  if (load_checkpoint(checkpoint, settings.checkpoint, comm) && prints)
    std::cout << "resumed at step " << step << ", epoch " << position.epoch << ", sample "
              << position.consumed << " on " << comm.world_size() << " ranks\n";

  // The work of all ranks in every step, including ranks without a batch in the last step of an
  // epoch.
  const auto finish_step = [&](const Batch* batch) {
    optimizer.step();
    const Tensor now = zeros({kSamples}, {.dtype = DType::int64, .device = Device()});
    if (batch)
      for (const std::int64_t sample : batch->tensors[1].to_vector<std::int64_t>())
        ++now.data<std::int64_t>()[sample];
    comm.all_reduce(now);
    add_(seen, now);
    position = batch ? loader.position() : SamplerPosition{position.epoch, kSamples};
    if (++step % settings.every == 0) save_checkpoint(checkpoint, settings.checkpoint, comm);
  };

  loader.set_position(position);
  while (position.epoch < settings.epochs) {
    Join join(model);
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      cross_entropy(model(x), y).backward();
      finish_step(&batch);
    }
    join.finish([&] { finish_step(nullptr); });
    const auto times = seen.to_vector<std::int64_t>();
    if (prints)
      std::cout << "epoch " << position.epoch << ": " << std::count(times.begin(), times.end(), 1)
                << " of " << kSamples << " samples seen once\n";
    mul_(seen, 0);
    position = loader.position();
  }
  save_checkpoint(checkpoint, settings.checkpoint, comm);
  if (prints)
    std::cout << step << " steps, parameters " << std::hex << checksum(net) << std::dec << '\n';
}

int main(int argc, char** argv) {
  Settings settings;
  Job job("Trains a small network, and goes on from its last checkpoint if there is one.");
  job.options().add_option("--checkpoint", settings.checkpoint, "the file");
  job.options()
      .add_option("--epochs", settings.epochs, "passes over the data")
      ->check(option::epochs());
  job.options()
      .add_option("--every", settings.every, "steps from one checkpoint to the next")
      ->check(option::steps());
  job.options()
      .add_option("--deadline", settings.deadline_s, "seconds that a rank waits for the others")
      ->check(option::number(0.1, 3600));
  job.parse(argc, argv);
  job.group().deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * settings.deadline_s));
  return job.run([&](Communicator& comm) { train(comm, settings); });
}
