// The cost of running a backward pass in two halves.
//
//   BM_SplitBackward/cpu/float32/<network>/<part>/B:<rows>
//
// The network `linear` is four layers of 512 x 512 with ReLU, and `convnet` is nn::convnet() on 28
// x 28 images. The parts are `whole`, an ordinary pass that also computes the input's gradient,
// `first` and `second`. Only the named part is timed. First and second together should cost as much
// as the whole.

#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <utility>

#include "ringrad/autograd/split_backward.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"

namespace ringrad {
namespace {

enum class Part { whole, first, second };

nn::Sequential linear_net() {
  const auto layer = [] { return nn::Linear(512, 512); };
  return nn::Sequential(layer(), nn::ReLU(), layer(), nn::ReLU(), layer(), nn::ReLU(), layer());
}

void run(benchmark::State& state, nn::Sequential net, const Shape& shape, Part part) {
  const Tensor x = randn(shape).set_requires_grad();
  const Tensor grad = randn(net(x).shape());
  const auto timed = [&](Part which, const auto& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (which == part) state.SetIterationTime(elapsed.count());
  };
  for (auto _ : state) {
    x.set_grad({});
    for (const Tensor& parameter : net.parameters()) parameter.set_grad({});
    const Tensor y = net(x);
    if (part == Part::whole) {
      timed(Part::whole, [&] { y.backward(grad); });
      continue;
    }
    SplitBackward halves;
    timed(Part::first, [&] { halves = backward_inputs({&y, 1}, {&grad, 1}, {&x, 1}); });
    timed(Part::second, [&] { halves.weights.accumulate(); });
  }
}

const bool registered = [] {
  const std::pair<const char*, Part> parts[] = {
      {"whole", Part::whole}, {"first", Part::first}, {"second", Part::second}};
  for (const auto& [name, part] : parts) {
    const std::string end = concat("/", name, "/B:64");
    benchmark::RegisterBenchmark(("BM_SplitBackward/cpu/float32/linear" + end).c_str(),
                                 [part = part](benchmark::State& state) {
                                   run(state, linear_net(), {64, 512}, part);
                                 })
        ->UseManualTime();
    benchmark::RegisterBenchmark(("BM_SplitBackward/cpu/float32/convnet" + end).c_str(),
                                 [part = part](benchmark::State& state) {
                                   run(state, nn::convnet(), {64, 1, 28, 28}, part);
                                 })
        ->UseManualTime();
  }
  return true;
}();

}  // namespace
}  // namespace ringrad
