// Recurrent layers against PyTorch, with its names of parameters.

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/recurrent.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::GoldenCase;

constexpr double kSlack = 64;

class RecurrentGoldenTest : public ::testing::Test {
 protected:
  void check(const std::string& name, Recurrent&& layer) {
    SCOPED_TRACE(name);
    const GoldenCase& golden = cases_.at(name);
    StateDict state;
    for (const auto& [key, tensor] : golden)
      if (key.starts_with("before.")) state[key.substr(7)] = tensor;
    layer.load_state_dict(state);

    const auto leaf = [&](const std::string& key) {
      return golden.contains(key) ? clone(golden.at(key)).set_requires_grad() : Tensor();
    };
    const Tensor x = leaf("input");
    const RecurrentState before{leaf("state.0"), leaf("state.1")};
    const auto [output, last] = layer.run(x, before);
    Tensor total = sum(output * golden.at("output_weights")) + sum(square(last.hidden));
    if (last.cell.defined()) total = total + sum(square(last.cell));
    total.backward();

    expect_close(output, golden.at("output"), kSlack);
    expect_close(last.hidden, golden.at("last.0"), kSlack);
    expect_close(x.grad(), golden.at("grad.input"), kSlack);
    expect_close(before.hidden.grad(), golden.at("grad.state.0"), kSlack);
    if (before.cell.defined()) {
      expect_close(last.cell, golden.at("last.1"), kSlack);
      expect_close(before.cell.grad(), golden.at("grad.state.1"), kSlack);
    }
    for (const auto& [key, parameter] : layer.named_parameters())
      expect_close(parameter.grad(), golden.at("grad." + key), kSlack);
  }

  const std::map<std::string, GoldenCase> cases_ = ringrad::testing::read_golden("recurrent");
};

TEST_F(RecurrentGoldenTest, LayersMatchPyTorch) {
  check("RNN", RNN(4, 3));
  check("RNN relu bidirectional", RNN(4, 3, {.bidirectional = true}, true));
  check("GRU 2 layers batch_first", GRU(4, 3, {.num_layers = 2, .batch_first = true}));
  check("LSTM", LSTM(4, 3));
  check("LSTM 2 layers bidirectional", LSTM(4, 3, {.num_layers = 2, .bidirectional = true}));
  check("LSTM no bias batch_first", LSTM(4, 3, {.batch_first = true, .bias = false}));
}

TEST(RecurrentLayerTest, StatesBeginAsZerosAndCarryOn) {
  GRU gru(2, 3, {.num_layers = 2, .dropout = 0.5});
  gru.eval();
  const Tensor x = reshape(arange(12), {3, 2, 2}) * 0.1;
  const Tensor whole = gru(x);
  const RecurrentResult first = gru.run(slice(x, 0, 0, 1), {.hidden = zeros({2, 2, 3})});
  const RecurrentResult rest = gru.run(slice(x, 0, 1, 3), first.state);
  expect_same_bits(concatenate({first.output, rest.output}), whole);
  gru.train();
  EXPECT_NE(gru(x).to_vector<float>(), whole.to_vector<float>());  // dropout between layers
  EXPECT_EQ(concat(gru.describe()), "GRU(2, 3, 2 layers)");
}

TEST(RecurrentLayerTest, RefusesWhatDoesNotFit) {
  LSTM lstm(2, 3);
  const Tensor x = ones({4, 2, 2}), state = ones({1, 2, 3});
  expect_throws<ShapeError>([&] { lstm(ones({4, 2, 3})); }, "x must be (T, B, 2)");
  expect_throws<ShapeError>([&] { lstm(ones({0, 2, 2})); }, "at least one step");
  expect_throws<ValueError>([&] { lstm.run(x, {.hidden = state}); }, "no cell state");
  expect_throws<ShapeError>([&] { lstm.run(x, {state, ones({2, 2, 3})}); }, "got (2, 2, 3)");
  expect_throws<ValueError>([] { GRU(2, 0); }, "GRU: sizes");
  expect_throws<ValueError>([] { LSTM(2, INT64_MAX); }, "hidden_size below 2^31");
  expect_throws<ValueError>([] { RNN(2, 2, {.dropout = 1}); }, "dropout");
}

}  // namespace
}  // namespace ringrad::nn
