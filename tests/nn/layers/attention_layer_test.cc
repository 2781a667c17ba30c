// Attention and transformer layers: PyTorch's figures, what a token may see, and generation.

#include <gtest/gtest.h>

#include <optional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/transformer.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::GoldenCase;
using ringrad::testing::Random;

constexpr double kSlack = 64;

class AttentionGoldenTest : public ::testing::Test {
 protected:
  template <class Layer, class Call>
  void check(const std::string& name, Layer&& layer, Call call) {
    SCOPED_TRACE(name);
    const GoldenCase& golden = cases_.at(name);
    StateDict state;
    for (const auto& [key, tensor] : golden)
      if (key.starts_with("before.")) state[key.substr(7)] = tensor;
    layer.load_state_dict(state);
    const Tensor x = clone(golden.at("input")).set_requires_grad(),
                 memory = clone(golden.at("memory")).set_requires_grad();
    const Tensor y = call(layer, x, memory, golden.at("mask") > 0);
    sum(y * golden.at("output_weights")).backward();
    expect_close(y, golden.at("output"), kSlack);
    expect_close(x.grad(), golden.at("grad.input"), kSlack);
    if (golden.contains("grad.memory"))
      expect_close(memory.grad(), golden.at("grad.memory"), kSlack);
    for (const auto& [key, parameter] : layer.named_parameters())
      expect_close(parameter.grad(), golden.at("grad." + key), kSlack);
  }

  const std::map<std::string, GoldenCase> cases_ = ringrad::testing::read_golden("attention");
};

TEST_F(AttentionGoldenTest, LayersMatchPyTorch) {
  const auto alone = [](Module& layer, const Tensor& x, const Tensor&, const Tensor&) {
    return layer(x);
  };
  check("self", MultiheadAttention(4, 2), alone);
  check("cross mask", MultiheadAttention(4, 2),
        [](MultiheadAttention& layer, const Tensor& x, const Tensor& memory, const Tensor& mask) {
          return layer.attend(x, memory, mask);
        });
  check("causal no bias", MultiheadAttention(4, 2, {.bias = false, .causal = true}), alone);
  check("TransformerBlock", TransformerBlock(4, 2, {.hidden = 6}), alone);
}

// One block of each kind, causal.
std::vector<TransformerBlockOptions> kinds() {
  return {{.causal = true},
          {.hidden = 10,
           .key_value_heads = 2,
           .bias = false,
           .causal = true,
           .rotary = true,
           .swiglu = true,
           .rms_norm = true},
          {.key_value_heads = 1, .causal = true, .rotary = true, .rotary_base = 100}};
}

TEST(TransformerBlockTest, GenerationGivesWhatAWholeSequenceGives) {
  Random random(1);
  const Tensor x = random.tensor({2, 7, 8});
  for (const TransformerBlockOptions& options : kinds()) {
    TransformerBlock block(8, 4, options);
    const NoGradGuard guard;
    const Tensor whole = block(x);
    KeyValueCache cache(7);
    std::vector<Tensor> parts{block.next(slice(x, 1, 0, 3), cache)};
    for (std::int64_t t = 3; t < 7; ++t) parts.push_back(block.next(slice(x, 1, t, t + 1), cache));
    EXPECT_EQ(cache.length(), 7);
    expect_close(concatenate(parts, 1), whole, kSlack);
  }
}

TEST(TransformerBlockTest, ATokenReadsFromNoLaterOne) {
  Random random(2);
  const Tensor x = random.tensor({1, 6, 8});
  const Tensor changed = concatenate({slice(x, 1, 0, 4), random.tensor({1, 2, 8})}, 1);
  for (TransformerBlockOptions options : kinds()) {
    TransformerBlock block(8, 4, options);
    expect_close(slice(block(changed), 1, 0, 4), slice(block(x), 1, 0, 4));
  }
  TransformerBlock block(8, 4);
  EXPECT_NE(slice(block(changed), 1, 0, 4).to_vector<float>(),
            slice(block(x), 1, 0, 4).to_vector<float>());
}

TEST(TransformerBlockTest, RotaryKnowsDistancesOnly) {
  Random random(3);
  MultiheadAttention attention(8, 2, {.causal = true, .rotary = true});
  const Tensor x = random.tensor({1, 4, 8});
  const NoGradGuard guard;
  // Positions 3 ... 6, with a window that hides the tokens before, as positions 0 ... 3.
  const Tensor later = concatenate({random.tensor({1, 3, 8}), x}, 1);
  const Tensor mask = arange(7) >= 3;
  expect_close(slice(attention.attend(later, later, mask), 1, 3, 7), attention(x), kSlack);
}

TEST(TransformerBlockTest, DropoutActsInTrainingOnly) {
  Random random(4);
  const Tensor x = random.tensor({1, 5, 8});
  TransformerBlock block(8, 2, {.dropout = 0.5});
  EXPECT_NE(block(x).to_vector<float>(), block(x).to_vector<float>());
  block.eval();
  expect_same_bits(block(x), block(x));
}

TEST(MultiheadAttentionTest, RefusesWhatDoesNotFit) {
  expect_throws<ValueError>([] { MultiheadAttention(6, 4); }, "heads must divide the width");
  expect_throws<ValueError>([] { MultiheadAttention(8, 4, {.key_value_heads = 3}); },
                            "got 3 and 4");
  expect_throws<ValueError>([] { MultiheadAttention(9, 3, {.rotary = true}); }, "even size; got 3");
  expect_throws<ValueError>([] { TransformerBlock(8, 2, {.dropout = 1}); }, "dropout");
  expect_throws<ValueError>([] { TransformerBlock(8, 2, {.hidden = -1}); }, "hidden");
  MultiheadAttention attention(8, 2);
  expect_throws<ShapeError>([&] { attention(ones({2, 3, 4})); }, "tokens must be (B, T, 8)");
  KeyValueCache cache(2);
  expect_throws<AutogradError>([&] { attention.next(ones({1, 1, 8}), cache); }, "NoGradGuard");
  const NoGradGuard guard;
  expect_throws<ShapeError>([&] { attention.next(ones({1, 3, 8}), cache); }, "at most 2");
}

TEST(KeyValueCacheTest, RefusesTokensThatDifferFromTheFirst) {
  KeyValueCache cache(4);
  const Tensor x = ones({1, 2, 1, 3});
  cache.append(x, x);
  expect_throws<ShapeError>(
      [&] {
        cache.append(ones({2, 2, 1, 3}), ones({2, 2, 1, 3}));
      },
      "must get (1, 2, 1, 3), as in earlier calls");
  const Tensor half = to(x, DType::float16);
  expect_throws<DTypeError>([&] { cache.append(half, half); },
                            "must get float32, as in earlier calls; got float16");
  EXPECT_EQ(cache.length(), 1);
}

TEST(KeyValueCacheTest, AfterARefusalItTakesWhatFits) {
  KeyValueCache cache(4);
  const Tensor x = ones({1, 2, 1, 3});
  expect_throws<ShapeError>([&] { cache.append(x, ones({1, 3, 1, 3})); }, "equal B, H and T");
  expect_throws<ShapeError>([&] { cache.append(x, ones({2, 2, 1, 3})); }, "equal B, H and T");
  expect_throws<DTypeError>([&] { cache.append(x, to(x, DType::float16)); }, "float16");
  cache.append(x, x);
  cache.append(2 * x, x);
  cache.truncate(1);
  expect_same_bits(cache.append(3 * x, x).keys, concatenate({x, 3 * x}, 2));
  expect_throws<ValueError>([&] { cache.truncate(3); }, "between 0 and 2 tokens can stay; got 3");
}

}  // namespace
}  // namespace ringrad::nn
