// A small network and its data, for tests that compare ways to train it.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/sgd.h"

namespace ringrad::testing {

inline constexpr nn::SGDOptions kPlainSgd{.learning_rate = 0.1};
inline constexpr nn::SGDOptions kMomentumSgd{
    .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};

inline nn::Sequential small_net() {
  return nn::Sequential(nn::Linear(6, 16), nn::Tanh(), nn::Linear(16, 3));
}

/// The loss on a rank's batch in a step, on the default device.
inline Tensor loss_of(nn::Module& net, int rank, int step) {
  Generator generator(static_cast<std::uint64_t>(1000 * step + rank));
  const Tensor x = randn({8, 6}, {}, generator), y = randint(0, 3, {8}, generator);
  return cross_entropy(net.forward(x), y);
}

inline std::vector<Tensor> copies_of(const nn::Module& net) {
  std::vector<Tensor> copies;
  for (const Tensor& parameter : net.parameters()) copies.push_back(clone(parameter.detach()));
  return copies;
}

/// A model of one number, of which every gradient is x. If the learning rate is the number of
/// workers, `applied` counts gradients.
struct Counter : nn::Module {
  Tensor count = parameter("count", zeros({1}));
  Tensor forward(const Tensor& x, Where) override { return count * x; }
  std::int64_t applied() const { return -count.detach().item<std::int64_t>(); }
};

}  // namespace ringrad::testing
