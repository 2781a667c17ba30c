// Ranks with different numbers of rows, and what one rank computes with all of them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"

namespace ringrad::testing {

/// rows[rank][step]; a rank without rows in a step has run out of data.
using Rows = std::vector<std::vector<std::int64_t>>;

struct Batch {
  Tensor x, y;
};

inline Batch batch_of(int rank, std::size_t step, std::int64_t rows) {
  Generator generator(1000 * static_cast<std::uint64_t>(rank) + step);
  return {randn({rows, 6}, {}, generator), randint(0, 3, {rows}, generator)};
}

inline Batch all_of(const Rows& rows, std::size_t step) {
  std::vector<Tensor> x, y;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (step < rows[rank].size()) {
      const Batch batch = batch_of(static_cast<int>(rank), step, rows[rank][step]);
      x.push_back(batch.x);
      y.push_back(batch.y);
    }
  return {kernels::concatenate(x), kernels::concatenate(y)};
}

inline std::size_t num_steps(const Rows& rows) {
  std::size_t most = 0;
  for (const auto& steps : rows) most = std::max(most, steps.size());
  return most;
}

inline nn::Sequential make_net() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 16), nn::Tanh(),
                        nn::Linear(16, 3));
}

inline std::vector<Tensor> copies(const nn::Module& net) {
  std::vector<Tensor> result;
  for (const Tensor& parameter : net.parameters()) result.push_back(clone(parameter.detach()));
  return result;
}

inline constexpr nn::SGDOptions kSgd{.learning_rate = 0.1, .momentum = 0.9};

/// The parameters after each step of one rank on the samples of all ranks.
inline std::vector<std::vector<Tensor>> reference(const Rows& rows) {
  nn::Sequential net = make_net();
  nn::SGD optimizer(net.parameters(), kSgd);
  std::vector<std::vector<Tensor>> result;
  for (std::size_t step = 0; step < num_steps(rows); ++step) {
    const Batch batch = all_of(rows, step);
    optimizer.zero_grad();
    cross_entropy(net(batch.x), batch.y).backward();
    optimizer.step();
    result.push_back(copies(net));
  }
  return result;
}

}  // namespace ringrad::testing
