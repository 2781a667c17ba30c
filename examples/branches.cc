// A small residual network whose main paths and shortcuts run concurrently, compared with the plain
// network: the numbers are the same, bit by bit. At the end it prints the measured times, and
// whether running concurrently pays.
//
//     branches                               two threads, one per branch
//     branches --device cuda                 a stream per branch; simulated if there is no GPU
//     branches --mode automatic --channels 64 --size 32 --batch 32  keeps the faster of both ways

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

#include "ringrad/options.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Settings {
  std::string device = "cpu";
  Branches::Mode mode = Branches::Mode::side_by_side;
  int steps = 8, threads = 2;
  std::int64_t batch = 8, channels = 16, size = 16;
};

nn::Sequential main_path(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, {.padding = 1}), nn::BatchNorm2d(out), nn::ReLU(),
                        nn::Conv2d(out, out, {.padding = 1}), nn::BatchNorm2d(out));
}

nn::Sequential shortcut(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, {.kernel = 1}), nn::BatchNorm2d(out));
}

struct PlainBlock : nn::Module {
  PlainBlock(std::int64_t in, std::int64_t out)
      : main(child("0", main_path(in, out))), side(child("1", shortcut(in, out))) {}
  Tensor forward(const Tensor& x, Where) override {
    const Tensor y = main(x);
    return y + side(x);
  }
  nn::Sequential &main, &side;
};

// Two blocks and a classifier.
template <class Block>
nn::Sequential network(Block first, Block second, std::int64_t channels) {
  return nn::Sequential(std::move(first), nn::ReLU(), std::move(second), nn::ReLU(),
                        nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(channels, 3));
}

nn::Sequential with_branches(const Settings& options) {
  const auto block = [&](std::int64_t in) {
    Branches branches(Branches::Join::sum, main_path(in, options.channels),
                      shortcut(in, options.channels));
    branches.set_mode(options.mode);
    return branches;
  };
  return network(block(3), block(options.channels), options.channels);
}

// Noise, with one of three channels a little brighter; that channel is the class.
Batch make_batch(const Settings& options, int step) {
  Generator generator(static_cast<std::uint64_t>(step));
  const Tensor noise = randn({options.batch, 3, options.size, options.size}, {}, generator);
  const Tensor labels = to(randint(0, 3, {options.batch}, generator), default_device());
  return {{noise + reshape(index_select(eye(3), 0, labels), {options.batch, 3, 1, 1}), labels}};
}

float train_step(nn::Module& net, nn::Optimizer& optimizer, const Batch& batch, int threads) {
  omp_set_num_threads(threads);
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(net(batch.input()), batch.target());
  loss.backward();
  optimizer.step();
  return loss.item<float>();
}

void train(const Settings& options) {
  set_default_device(options.device.c_str());
  manual_seed(1);
  nn::Sequential net = with_branches(options);
  nn::Sequential plain = network(PlainBlock(3, options.channels),
                                 PlainBlock(options.channels, options.channels), options.channels);
  plain.load_state_dict(net.state_dict());
  const nn::SGDOptions sgd{.learning_rate = 0.1, .momentum = 0.9};
  nn::SGD optimizer(net.parameters(), sgd), plain_optimizer(plain.parameters(), sgd);
  // Some products' bits depend on the size of the OpenMP team. Of two concurrent branches each has
  // half of it.
  const bool halves = options.mode == Branches::Mode::side_by_side;
  const int plain_threads = halves ? std::max(1, options.threads / 2) : options.threads;

  for (int step = 1; step <= options.steps; ++step) {
    const Batch batch = make_batch(options, step);
    const float loss = train_step(net, optimizer, batch, options.threads);
    const float plain_loss = train_step(plain, plain_optimizer, batch, plain_threads);
    std::cout << "step " << step << ": loss " << loss << ", of the plain network " << plain_loss
              << '\n';
  }
  const bool same = std::ranges::all_of(net.state_dict(), [&](const auto& named) {
    return named.second.template to_vector<float>() ==
           plain.state_dict().at(named.first).template to_vector<float>();
  });
  std::cout << "parameters and statistics " << (same ? "have the bits" : "differ from those")
            << " of the plain network's\n";
  net.visit([](const std::string& path, nn::Module& module) {
    if (const auto* branches = dynamic_cast<Branches*>(&module))
      std::cout << "block " << path << ": " << branches->report();
  });
}

int main(int argc, char** argv) {
  Settings options;
  const std::map<std::string, Branches::Mode> modes = {
      {"side_by_side", Branches::Mode::side_by_side},
      {"in_turn", Branches::Mode::in_turn},
      {"automatic", Branches::Mode::automatic}};
  std::string mode = "side_by_side";
  CLI::App program("Trains a residual network whose branches run side by side.");
  program.option_defaults()->always_capture_default();
  program.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}));
  program.add_option("--mode", mode)
      ->check(CLI::IsMember({"side_by_side", "in_turn", "automatic"}));
  program.add_option("--steps", options.steps, "batches; automatic needs 13 to know")
      ->check(option::steps());
  program.add_option("--threads", options.threads, "of OpenMP, for both branches together")
      ->check(CLI::Range(1, 1024));
  program.add_option("--batch", options.batch, "images")->check(CLI::Range(1, 4096));
  program.add_option("--channels", options.channels)->check(CLI::Range(1, 4096));
  program.add_option("--size", options.size, "height and width")->check(CLI::Range(1, 512));
  if (const auto exit_code = parse_options(program, argc, argv)) return *exit_code;
  options.mode = modes.at(mode);
  try {
    if (options.device == "cuda" && is_cuda_simulated()) std::cerr << "The GPUs are simulated.\n";
    train(options);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
