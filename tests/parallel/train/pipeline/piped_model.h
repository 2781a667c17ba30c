// A model on one rank and the same model as a pipeline, for tests that compare them.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/layers/row_norm.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

struct LabelledBatch {
  Tensor x, y;
};

inline Tensor cross_entropy_loss(const Tensor& logits, const Tensor& targets) {
  return cross_entropy(logits, targets);
}

/// Twelve layers, (B, 6) -> (B, 3).
inline nn::Sequential deep_mlp() {
  manual_seed(7);
  return nn::Sequential(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 12), nn::Tanh(),
                        nn::LayerNorm(12), nn::Linear(12, 16), nn::ReLU(), nn::Linear(16, 16),
                        nn::Sigmoid(), nn::Linear(16, 8), nn::Tanh(), nn::Linear(8, 3));
}
inline LabelledBatch mlp_batch(std::int64_t rows, std::uint64_t seed = 1) {
  Generator generator(seed);
  const Tensor x = randn({rows, 6}, {}, generator);
  return {x, randint(0, 3, {rows}, generator)};
}

/// Seven layers with batch norm, (B, 2, 8, 8) -> (B, 3); activations are channels_last.
inline nn::Sequential small_convnet() {
  manual_seed(7);
  return nn::Sequential(nn::Conv2d(2, 8, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Conv2d(8, 8, {.padding = 1}), nn::Flatten(),
                        nn::Linear(128, 3));
}
inline LabelledBatch image_batch(std::int64_t rows) {
  Generator generator(2);
  const Tensor x = randn({rows, 2, 8, 8}, {}, generator);
  return {x, randint(0, 3, {rows}, generator)};
}

/// Equal numbers of layers.
inline std::vector<std::size_t> equal_parts(std::size_t num_layers, int num_stages) {
  std::vector<std::size_t> starts;
  for (std::size_t s = 0; s < static_cast<std::size_t>(num_stages); ++s)
    starts.push_back(s * num_layers / static_cast<std::size_t>(num_stages));
  return starts;
}

/// The reference of pipelines: micro-batches one after another. Returns the mean loss.
inline double accumulate(nn::Module& model, const LabelledBatch& batch, int num_micro_batches) {
  double mean = 0;
  const std::int64_t rows = batch.x.size(0);
  for (int b = 0; b < num_micro_batches; ++b) {
    const std::int64_t begin = rows * b / num_micro_batches,
                       end = rows * (b + 1) / num_micro_batches;
    const Tensor loss =
        cross_entropy(model.forward(slice(batch.x, 0, begin, end)), slice(batch.y, 0, begin, end));
    const double weight = static_cast<double>(end - begin) / static_cast<double>(rows);
    mean += weight * loss.item<double>();
    loss.backward(full({}, weight));
  }
  return mean;
}

/// The gradients and buffers of a rank's stages are those of the whole model, bit by bit.
inline void expect_same_gradients(const nn::Module& stage, const nn::Module& whole) {
  for (const auto& [name, parameter] : stage.named_parameters())
    for (const auto& [whole_name, expected] : whole.named_parameters())
      if (name == whole_name) {
        SCOPED_TRACE(name);
        ASSERT_TRUE(parameter.grad().defined());
        expect_same_bits(parameter.grad(), expected.grad());
      }
  const nn::StateDict all = whole.state_dict();
  for (const auto& [name, buffer] : stage.named_buffers()) {
    SCOPED_TRACE(name);
    expect_same_bits(buffer, all.at(name));
  }
}

}  // namespace ringrad::testing
