// Twenty steps of every optimizer against PyTorch, on two parameters with quadratic losses.

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

class OptimizerGoldenTest : public ::testing::Test {
 protected:
  // With leaves_out no loss reaches the second parameter in steps 0, 3, 6 ...
  void check(const std::string& name, const MakeOptimizer& make, bool leaves_out = false) {
    SCOPED_TRACE(name);
    const auto& golden = cases_.at(name);
    const std::vector<Tensor> parameters{clone(golden.at("start.0")).set_requires_grad(),
                                         clone(golden.at("start.1")).set_requires_grad()};
    const auto optimizer = make(parameters);
    for (int step = 0; step < 20; ++step) {
      optimizer->zero_grad();
      Tensor loss = scalar_tensor(0.f);
      const int num_reached = leaves_out && step % 3 == 0 ? 1 : 2;
      for (int i = 0; i < num_reached; ++i) {
        const Tensor residual =
            parameters[static_cast<std::size_t>(i)] * golden.at(concat("scale.", i)) -
            golden.at(concat("target.", i));
        loss = loss + 0.5 * sum(square(residual));
      }
      loss.backward();
      optimizer->step();
    }
    for (int i = 0; i < 2; ++i)
      ringrad::testing::expect_close(parameters[static_cast<std::size_t>(i)],
                                     golden.at(concat("end.", i)), 128);
  }

  const std::map<std::string, ringrad::testing::GoldenCase> cases_ =
      ringrad::testing::read_golden("optimizers");
};

template <class O, class Options>
MakeOptimizer maker(Options options) {
  return [=](const std::vector<Tensor>& parameters) {
    return std::make_unique<O>(parameters, options);
  };
}

TEST_F(OptimizerGoldenTest, SgdMatchesPyTorch) {
  check("SGD", maker<SGD>(SGDOptions{.learning_rate = 0.1}));
  check("SGD momentum", maker<SGD>(SGDOptions{.learning_rate = 0.05, .momentum = 0.9}));
  check("SGD momentum dampening weight_decay",
        maker<SGD>(SGDOptions{
            .learning_rate = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}));
  check("SGD nesterov",
        maker<SGD>(SGDOptions{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}));
}

TEST_F(OptimizerGoldenTest, AdamMatchesPyTorch) {
  check("Adam", maker<Adam>(AdamOptions{.learning_rate = 0.02}));
  check("Adam weight_decay", maker<Adam>(AdamOptions{.learning_rate = 0.02, .weight_decay = 0.1}));
  check("AdamW", maker<AdamW>(AdamOptions{.learning_rate = 0.02, .weight_decay = 0.01}));
}

// Neither momentum nor decay moves such parameters, and each parameter's steps are counted
// separately.
TEST_F(OptimizerGoldenTest, ParametersWithoutAGradientAreLeftAloneAsInPyTorch) {
  check("SGD momentum dampening weight_decay leaves out",
        maker<SGD>(SGDOptions{
            .learning_rate = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}),
        true);
  check("Adam weight_decay leaves out",
        maker<Adam>(AdamOptions{.learning_rate = 0.02, .weight_decay = 0.1}), true);
  check("AdamW leaves out", maker<AdamW>(AdamOptions{.learning_rate = 0.02, .weight_decay = 0.01}),
        true);
}

}  // namespace
}  // namespace ringrad::nn
