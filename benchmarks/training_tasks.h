// The four training tasks that are measured: a network, batches of random data, a loss, SGD.
//
//     name        network                          batch of              loss
//     tiny_mlp    10 -> 20 -> 5                    32 vectors            mean squared error
//     mlp         784 -> 512 -> 512 -> 10          128 vectors           cross entropy
//     convnet     nn::convnet                      128 grey 28 x 28      cross entropy
//     resnet20    nn::resnet20                     64 coloured 32 x 32   cross entropy
//
// peers/torch_step.cc has the same for libtorch: eight rotating batches, momentum 0.9, the same
// learning rates, and a loss that is read in every step, as in real training loops.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringrad/core/base/shape.h"
#include "ringrad/nn/layers/sequential.h"

namespace ringrad::bench {

struct TrainingTask {
  std::string name;
  nn::Sequential (*make)();
  Shape batch_shape;
  bool regression = false;  ///< learn five numbers instead of one of ten classes

  int batch() const { return static_cast<int>(batch_shape[0]); }

  /// Makes network, data and optimizer. The result does one whole step (forward, backward, update)
  /// and returns the loss.
  std::function<float()> build() const;
};

const std::vector<TrainingTask>& training_tasks();

}  // namespace ringrad::bench
