// Trains a small network on one device, without ranks: shows its progress, and draws its losses.
//
//     one_device                                  on the CPU; draws loss.svg
//     one_device --device cuda --curve gpu.svg    on a GPU, simulated on a machine without

#include <CLI/CLI.hpp>
#include <iostream>

#include "ringrad/options.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

void train(int num_epochs, Device device, const std::string& curve_file) {
  const TensorDataset data = spirals(1024, 3), test = spirals(512, 3, 0.02, /*seed=*/1);
  const Tensor test_x = to(test.tensors()[0], device), test_y = to(test.tensors()[1], device);
  const DefaultDeviceGuard guard(device);  // where the network's parameters are made

  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                     nn::Linear(64, 3));
  nn::Adam optimizer(net.parameters(), {.learning_rate = 0.01});
  RandomSampler sampler(data.size());
  DataLoader loader(data, sampler, {.batch_size = 64});
  nn::Progress progress(num_epochs, loader.size());
  nn::LossCurve curve("Three spirals");
  double accuracy = 0;
  for (int epoch = 0, step = 0; epoch < num_epochs; ++epoch) {
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(to(batch.input(), device)), to(batch.target(), device));
      loss.backward();
      optimizer.step();
      curve.add("training", step++, loss.item());
      progress.step(batch.size(), {{"loss", loss.item()}});
    }
    const NoGradGuard no_grad;
    const Tensor logits = net(test_x);
    accuracy = mean(to(argmax(logits, 1) == test_y, DType::float32)).item();
    curve.add("test", step, cross_entropy(logits, test_y).item());
    progress.end_epoch({{"test accuracy", accuracy}});
  }
  curve.write(curve_file);
  std::cout << "test accuracy " << accuracy << "; losses are drawn in " << curve_file << '\n';
}

int main(int argc, char** argv) try {
  int num_epochs = 20;
  std::string device = "cpu", curve_file = "loss.svg";
  CLI::App options("Trains a small network on one device.");
  options.option_defaults()->always_capture_default();
  options.add_option("--epochs", num_epochs, "passes over the data")->check(option::epochs());
  options.add_option("--device", device)->check(CLI::IsMember({"cpu", "cuda"}));
  options.add_option("--curve", curve_file, "the picture of the losses");
  if (const auto exit_code = parse_options(options, argc, argv)) return *exit_code;
  if (device == "cuda" && is_cuda_simulated()) std::cerr << "The GPUs are simulated.\n";
  train(num_epochs, device.c_str(), curve_file);
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
