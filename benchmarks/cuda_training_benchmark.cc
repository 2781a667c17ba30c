// Our side of compare_torch_cuda.py: one case per process, sampled in turn with the other side.
//
//   cuda_training_benchmark --list [--batch 64,256]
//   cuda_training_benchmark CASE   [--batch 64,256] [--seconds 0.05]
//
//     ->  {"case": .., "gpu": .., "simulated": .., "calls": 12, "loss": 6.91}   ready
//     <-  a line                  ->  {"us": 1234.5}      one call, of a sample of `calls`
//     <-  the end of the input    ->  {"loss": 5.02}      the last one; null for an operator
//
//   step/tiny_mlp/float32/B:32               10 -> 20 -> 5, mean squared error
//   step/resnet18/bfloat16/B:<>/H:<>/W:<>    and resnet50: 1000 classes, cross entropy, autocast,
//                                            channels_last
//   step/gpt/bfloat16/B:<>/T:<>/..           the smallest GPT-2: the next of T tokens, cross
//                                            entropy, autocast
//   step/..@captured                         each of these steps as a CUDA graph
//                                            (nn/captured_step.h)
//   BM_..                                    an operator of cuda_operator_cases.h
//
// A step is forward, backward and SGD with momentum on one batch of random data, without reading
// the loss. A sample begins and ends with an idle GPU and is timed on the host, so the host's time
// to queue work counts. On simulated GPUs the networks see tiny images, and a sample is one call:
// such a run only shows that everything works.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/benchmarks/cuda_operator_cases.h"
#include "ringrad/benchmarks/timing.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/nn/captured_step.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/gpt.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"

namespace ringrad::bench {
namespace {

const Device kGpu(DeviceType::cuda, 0);
constexpr int kWarmUps = 3;  // a captured step is replayed from the third call on

// A case that runs: `call` queues work; `loss` is that of the last call, null if it computes none.
struct Running {
  std::function<void()> call;
  std::function<nlohmann::json()> loss = [] { return nullptr; };
};

struct TimedCase {
  std::string name;
  std::function<Running()> make;
};

// --- Training steps ---

struct Training {
  nn::Sequential net;
  std::vector<Tensor> batch;  // x, target
  Tensor (*loss)(const Tensor& output, const Tensor& target);
  DType products;  // dtype of matrix products and convolutions
  nn::SGD optimizer{net.parameters(), {.learning_rate = 0.01, .momentum = 0.9}};

  Tensor step(const std::vector<Tensor>& inputs) {
    optimizer.zero_grad();
    const Tensor value = [&] {
      const Autocast mixed(products);
      return loss(net(inputs[0]), inputs[1]);
    }();
    value.backward();
    optimizer.step();
    return value;
  }
};

nn::Sequential on_gpu(nn::Sequential net) {
  net.to(kGpu);
  return net;
}

std::shared_ptr<Training> tiny_mlp() {
  nn::Sequential net(nn::Linear(10, 20), nn::ReLU(), nn::Linear(20, 5));
  return std::make_shared<Training>(
      Training{on_gpu(std::move(net)),
               {randn({32, 10}, {.device = kGpu}), randn({32, 5}, {.device = kGpu})},
               [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); },
               DType::float32});
}

std::shared_ptr<Training> resnet(const std::string& network, std::int64_t batch,
                                 std::int64_t side) {
  constexpr std::int64_t kClasses = 1000;
  const Tensor x = randn({batch, 3, side, side}, {.device = kGpu});
  return std::make_shared<Training>(Training{
      on_gpu(nn::make_model(network,
                            {.channels = 3, .height = side, .width = side, .classes = kClasses})),
      {to_layout(x, Layout::channels_last), to(randint(0, kClasses, {batch}), kGpu)},
      [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); },
      DType::bfloat16});
}

constexpr std::int64_t kSequences = 8;

nn::GPTOptions gpt_options() {
  if (is_cuda_simulated())
    return {.vocabulary = 64, .context = 16, .layers = 1, .heads = 2, .width = 32};
  return {.vocabulary = 50304, .context = 1024, .layers = 12, .heads = 12, .width = 768};
}

std::string gpt_name() {
  const nn::GPTOptions o = gpt_options();
  return concat("step/gpt/bfloat16/B:", kSequences, "/T:", o.context, "/L:", o.layers,
                "/H:", o.heads, "/C:", o.width, "/V:", o.vocabulary);
}

std::shared_ptr<Training> gpt() {
  const nn::GPTOptions options = gpt_options();
  const Tensor tokens = randint(0, options.vocabulary, {kSequences, options.context + 1});
  return std::make_shared<Training>(
      Training{on_gpu(nn::gpt(options)),
               {to(slice(tokens, 1, 0, -1), kGpu), to(flatten(slice(tokens, 1, 1)), kGpu)},
               [](const Tensor& output, const Tensor& target) {
                 return cross_entropy(flatten(output, 0, 1), target);
               },
               DType::bfloat16});
}

Running running(const std::shared_ptr<Training>& training, bool captured) {
  const auto last = std::make_shared<Tensor>();
  const auto loss = [last] {
    const float value = last->item();
    RINGRAD_CHECK(std::isfinite(value), ValueError, Where::current(),
                  "cuda_training_benchmark: the loss must be finite; got ", value);
    return nlohmann::json(value);
  };
  if (!captured) return {[=] { *last = training->step(training->batch); }, loss};
  const auto graph = std::make_shared<nn::CapturedStep>(
      [training](const std::vector<Tensor>& inputs) { return std::vector{training->step(inputs)}; },
      training->net.parameters());
  return {[=] { *last = (*graph)(training->batch)[0]; }, loss};
}

// --- Cases ---

std::vector<TimedCase> all_cases(const std::vector<std::int64_t>& batches) {
  std::vector<TimedCase> cases;
  for (const bool captured : {false, true})
    cases.push_back({concat("step/tiny_mlp/float32/B:32", captured ? "@captured" : ""),
                     [=] { return running(tiny_mlp(), captured); }});
  const std::int64_t side = is_cuda_simulated() ? 32 : 224;
  for (const std::string network : {"resnet18", "resnet50"})
    for (const std::int64_t batch : batches)
      for (const bool captured : {false, true})
        cases.push_back({concat("step/", network, "/bfloat16/B:", batch, "/H:", side, "/W:", side,
                                captured ? "@captured" : ""),
                         [=] { return running(resnet(network, batch, side), captured); }});
  for (const bool captured : {false, true})
    cases.push_back({concat(gpt_name(), captured ? "@captured" : ""),
                     [=] { return running(gpt(), captured); }});
  for (const CudaOperatorCase& one : cuda_operator_cases())
    cases.push_back({one.name, [one] { return Running{one.make().call}; }});
  return cases;
}

// --- Measuring ---

double seconds_per_call(const Running& running, int calls) {
  synchronize(kGpu);
  const double start = now_seconds();
  for (int i = 0; i < calls; ++i) running.call();
  synchronize(kGpu);
  return (now_seconds() - start) / calls;
}

void say(const nlohmann::json& line) { std::cout << line.dump() << std::endl; }

void serve(const TimedCase& one, double seconds) {
  manual_seed(0);
  const Running running = one.make();
  running.call();
  const nlohmann::json first_loss = running.loss();
  int calls = 1;
  if (!is_cuda_simulated()) {
    seconds_per_call(running, kWarmUps);
    const double once = seconds_per_call(running, kWarmUps);
    calls = std::max(1, static_cast<int>(std::ceil(seconds / once)));
  }
  say({{"case", one.name},
       {"gpu", gpu_name(kGpu)},
       {"simulated", is_cuda_simulated()},
       {"calls", calls},
       {"loss", first_loss}});
  for (std::string line; std::getline(std::cin, line);)
    say({{"us", 1e6 * seconds_per_call(running, calls)}});
  say({{"loss", running.loss()}});
}

int run(int argc, char** argv) {
  std::string name;
  std::vector<std::int64_t> batches{64, 256};
  double seconds = 0.05;
  bool list = false;
  CLI::App app(
      "Times one training step or operator on a GPU, a sample for each line of its input.");
  app.add_option("case", name, "what to time");
  app.add_flag("--list", list, "name all cases and end");
  app.add_option("--batch", batches, "batch sizes of the ResNets, as 64,256")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 16));
  app.add_option("--seconds", seconds, "that a sample lasts at least")
      ->check(option::number(1e-6, 60));
  const auto check = [&] {
    if (list == !name.empty()) throw CLI::ValidationError("give either a case or --list");
  };
  if (const auto exit_code = parse_options(app, argc, argv, check)) return *exit_code;
  const std::vector<TimedCase> cases = all_cases(batches);
  if (list) {
    for (const TimedCase& one : cases) std::cout << one.name << '\n';
    return 0;
  }
  const auto found = std::ranges::find(cases, name, &TimedCase::name);
  if (found == cases.end()) {
    std::cerr << "cuda_training_benchmark: --list names all cases; got \"" << name << "\"\n";
    return 2;
  }
  if (num_cuda_devices() == 0) {
    std::cerr << "cuda_training_benchmark: needs a GPU; got none\n";
    return 1;
  }
  serve(*found, seconds);
  return 0;
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  try {
    return ringrad::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "cuda_training_benchmark: " << error.what() << '\n';
    return 1;
  }
}
