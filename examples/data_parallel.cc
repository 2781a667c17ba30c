// One process trains a model on several devices, and a copy of it on one device for comparison.
//
//     data_parallel --devices 3                   logical devices of the CPU
//     data_parallel --devices 3 --device cuda     GPUs, simulated ones on a machine without

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "ringrad/options.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kBatch = 128;

nn::Sequential make_net() {
  return nn::Sequential(nn::Flatten(), nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10));
}

float train_step(nn::Optimizer& optimizer, const Tensor& logits, const Tensor& labels) {
  const Tensor loss = cross_entropy(logits, labels);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item<float>();
}

void train(const std::vector<Device>& devices, int steps) {
  set_default_device(devices[0]);
  nn::Sequential net = make_net(), alone = make_net();
  alone.load_state_dict(net.state_dict());
  DataParallel parallel(net, make_net, devices);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.02, .momentum = 0.9});
  nn::SGD optimizer_alone(alone.parameters(), {.learning_rate = 0.02, .momentum = 0.9});

  const auto n = static_cast<std::int64_t>(devices.size());
  for (std::int64_t k = 0; k < n; ++k)
    std::cout << devices[static_cast<std::size_t>(k)] << ": " << kBatch / n + (k < kBatch % n)
              << " images of each batch\n";

  const TensorDataset images = fashion_mnist(Split::test);
  RandomSampler sampler(images.size(), 1);
  DataLoader loader(images, sampler,
                    {.batch_size = kBatch,
                     .transforms = {normalize({kFashionMnistMean}, {kFashionMnistDeviation})}});
  int step = 0;
  for (const Batch& batch : loader) {
    if (++step > steps) break;
    const Tensor x = to(batch.input(), devices[0]), y = to(batch.target(), devices[0]);
    const float loss = train_step(optimizer, parallel(x), y);
    const float loss_alone = train_step(optimizer_alone, alone(x), y);
    std::cout << "step " << step << ": loss " << loss << ", on one device " << loss_alone << '\n';
  }
  const NoGradGuard guard;
  float difference = 0;
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    difference =
        std::max(difference, max(abs(net.parameters()[i] - alone.parameters()[i])).item<float>());
  std::cout << "parameters differ by at most " << difference << " from one device's\n";
}

int main(int argc, char** argv) {
  int num_devices = 2, steps = 10;
  std::string type = "cpu";
  CLI::App options("Trains a small network on several devices of one process.");
  options.option_defaults()->always_capture_default();
  options.add_option("--devices", num_devices, "how many")->check(CLI::Range(1, 64));
  options.add_option("--device", type, "what they are")->check(CLI::IsMember({"cpu", "cuda"}));
  options.add_option("--steps", steps, "batches")->check(CLI::Range(1, 70));
  if (const auto exit_code = parse_options(options, argc, argv)) return *exit_code;
  try {
    std::vector<Device> devices;
    for (int k = 0; k < num_devices; ++k) devices.emplace_back(concat(type, ':', k));
    if (type == "cuda" && is_cuda_simulated()) std::cerr << "The GPUs are simulated.\n";
    train(devices, steps);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
