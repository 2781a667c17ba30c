// Twenty steps of every optimizer against PyTorch, on two parameters with quadratic losses.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/optimizer/adagrad.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/exponential_moving_average.h"
#include "ringrad/nn/optimizer/lbfgs.h"
#include "ringrad/nn/optimizer/muon.h"
#include "ringrad/nn/optimizer/rmsprop.h"
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
      if (after_step) after_step();
    }
    for (int i = 0; i < 2; ++i)
      ringrad::testing::expect_close(parameters[static_cast<std::size_t>(i)],
                                     golden.at(concat("end.", i)), 128);
  }

  std::function<void()> after_step;
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

TEST_F(OptimizerGoldenTest, GroupsMatchPyTorch) {
  check("AdamW groups", [](const std::vector<Tensor>& p) {
    return std::make_unique<AdamW>(
        ParameterGroups{{.parameters = {p[0]}, .weight_decay = 0.5},
                        {.parameters = {p[1]}, .learning_rate_scale = 2}},
        AdamOptions{.learning_rate = 0.02, .weight_decay = 0});
  });
}

TEST_F(OptimizerGoldenTest, RMSpropMatchesPyTorch) {
  check("RMSprop", maker<RMSprop>(RMSpropOptions{.learning_rate = 0.02, .alpha = 0.9}));
  check(
      "RMSprop momentum weight_decay",
      maker<RMSprop>(RMSpropOptions{.learning_rate = 0.02, .weight_decay = 0.1, .momentum = 0.9}));
}

TEST_F(OptimizerGoldenTest, AdagradMatchesPyTorch) {
  check("Adagrad", maker<Adagrad>(AdagradOptions{.learning_rate = 0.2}));
  check("Adagrad decays initial", maker<Adagrad>(AdagradOptions{.learning_rate = 0.2,
                                                                .learning_rate_decay = 0.1,
                                                                .weight_decay = 0.1,
                                                                .initial_sum = 0.5}));
}

TEST_F(OptimizerGoldenTest, MuonMatchesPyTorch) {
  check("Muon", maker<Muon>(MuonOptions{.learning_rate = 0.02, .dtype = DType::float32}));
  check("Muon plain match_adamw", maker<Muon>(MuonOptions{.learning_rate = 0.1,
                                                          .momentum = 0.8,
                                                          .nesterov = false,
                                                          .weight_decay = 0.01,
                                                          .iterations = 4,
                                                          .dtype = DType::float32,
                                                          .match_adamw = true}));
}

TEST_F(OptimizerGoldenTest, LBFGSMatchesPyTorch) {
  const auto& golden = cases_.at("LBFGS");
  const Tensor x = (to(arange(10), DType::float64) / 3. - 1.5).set_requires_grad();
  LBFGS optimizer({x}, {.max_iterations = 8, .max_evaluations = 10, .history = 5});
  for (const double expected : golden.at("losses").to_vector<double>()) {
    const double loss = optimizer.step([&] {
      const Tensor head = slice(x, 0, 0, 9), tail = slice(x, 0, 1, 10);
      return sum(100 * square(tail - square(head)) + square(1 - head));
    });
    EXPECT_NEAR(loss, expected, 1e-5 * expected + 1e-9);
  }
  ringrad::testing::expect_close(to(x, DType::float32), golden.at("end"), 128);
}

TEST_F(OptimizerGoldenTest, AveragesMatchPyTorch) {
  struct Net : Module {
    explicit Net(const std::vector<Tensor>& p) {
      for (const Tensor& tensor : p) parameter(concat('p', parameters().size()), tensor);
    }
  };
  std::optional<Net> net;
  std::optional<ExponentialMovingAverage> average;
  after_step = [&] { average->update(); };
  check("average", [&](const std::vector<Tensor>& p) {
    auto optimizer = std::make_unique<SGD>(p, SGDOptions{.learning_rate = 0.1});
    net.emplace(p);
    average.emplace(*net, AverageOptions{.decay = 0.9});
    return optimizer;
  });
  for (const int i : {0, 1})
    ringrad::testing::expect_close(average->state_dict().at(concat('p', i)),
                                   cases_.at("average").at(concat("average.", i)), 128);
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
  check("RMSprop momentum weight_decay leaves out",
        maker<RMSprop>(RMSpropOptions{.learning_rate = 0.02, .weight_decay = 0.1, .momentum = 0.9}),
        true);
  check("Adagrad decays initial leaves out",
        maker<Adagrad>(AdagradOptions{.learning_rate = 0.2,
                                      .learning_rate_decay = 0.1,
                                      .weight_decay = 0.1,
                                      .initial_sum = 0.5}),
        true);
}

}  // namespace
}  // namespace ringrad::nn
