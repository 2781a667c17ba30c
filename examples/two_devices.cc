// The smallest model on two devices: a layer on each, and to() between them. The same model on one
// device is trained for comparison.
//
//     two_devices                                       logical devices of the CPU
//     two_devices --device0 cuda:0 --device1 cuda:1     GPUs, simulated ones on a machine without

#include <CLI/CLI.hpp>
#include <iostream>

#include "ringrad/options.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Net : nn::Module {
  nn::Linear& hidden = child("hidden", nn::Linear(20, 64));
  nn::Linear& output = child("output", nn::Linear(64, 4));

  Tensor forward(const Tensor& x, Where at) override {
    const Tensor h = relu(hidden(to(x, hidden.weight.device()), at), at);
    return output(to(h, output.weight.device(), at), at);
  }
};

// Backward crosses the devices in reverse order.
float train_step(Net& net, nn::Optimizer& optimizer, const Tensor& x, const Tensor& labels) {
  const Tensor logits = net(x);
  const Tensor loss = cross_entropy(logits, to(labels, logits.device()));
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item<float>();
}

void train(Device device0, Device device1, int steps) {
  Net net, alone;
  alone.load_state_dict(net.state_dict());
  net.hidden.to(device0);
  net.output.to(device1);
  alone.to(device0);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});
  nn::SGD optimizer_alone(alone.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  Generator generator(1);
  const Tensor x = randn({256, 20}, {}, generator), labels = randint(0, 4, {256}, generator);
  for (int step = 1; step <= steps; ++step) {
    const float loss = train_step(net, optimizer, x, labels);
    train_step(alone, optimizer_alone, x, labels);
    std::cout << "step " << step << ": loss " << loss << '\n';
  }
  const auto parameters = net.parameters(), expected = alone.parameters();
  bool equal = true;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    equal = equal && parameters[i].to_vector<float>() == expected[i].to_vector<float>();
  std::cout << "layers on " << net.hidden.weight.device() << " and " << net.output.weight.device()
            << (equal ? ": as on one device, bit by bit\n" : ": not as on one device\n");
}

int main(int argc, char** argv) {
  std::string device0 = "cpu:0", device1 = "cpu:1";
  int steps = 10;
  CLI::App options("Trains a small network whose two layers lie on two devices.");
  options.option_defaults()->always_capture_default();
  options.add_option("--device0", device0, "of the hidden layer");
  options.add_option("--device1", device1, "of the output layer");
  options.add_option("--steps", steps, "how many")->check(CLI::Range(1, 1000));
  if (const auto exit_code = parse_options(options, argc, argv)) return *exit_code;
  try {
    const Device first(device0), second(device1);
    if (first.is_cuda() && is_cuda_simulated()) std::cerr << "The GPUs are simulated.\n";
    train(first, second, steps);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
