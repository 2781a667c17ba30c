// GPT against the GPT-2 of Hugging Face's transformers (tests/golden/make_gpt2.py), and what
// generation must not change.

#include "ringrad/nn/models/gpt.h"

#include <gtest/gtest.h>

#include <optional>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

constexpr GPTOptions kTiny{.vocabulary = 23, .context = 12, .layers = 2, .heads = 2, .width = 16};

StateDict foreign_file() { return read_safetensors("tests/golden/gpt2.safetensors"); }

// Of epsilons of float32: 1e-4.
constexpr double kSlack = 800;

const testing::GoldenCase& golden() {
  static const auto cases = testing::read_golden("gpt2");
  return cases.at("gpt2");
}

Sequential foreign_model() {
  Sequential net = gpt(kTiny);
  net.load_state_dict(from_gpt2(foreign_file(), kTiny.heads));
  return net;
}

Tensor on_device(const Tensor& x) { return to(x, default_device()); }

TEST(GPTTest, LogitsEqualThoseOfTransformersForItsFile) {
  Sequential net = foreign_model();
  testing::expect_close(net(on_device(golden().at("tokens"))), golden().at("logits"), kSlack);
}

TEST(GPTTest, GradientsEqualThoseOfTransformers) {
  Sequential net = foreign_model();
  const Tensor tokens = golden().at("tokens");
  const Tensor logits = slice(net(on_device(tokens)), 1, 0, -1);
  cross_entropy(flatten(logits, 0, 1), on_device(flatten(slice(tokens, 1, 1)))).backward();
  StateDict gradients;
  for (const auto& [name, parameter] : net.named_parameters())
    gradients[name] = to(parameter.grad(), Device());
  gradients = to_gpt2(gradients, kTiny.heads);
  int num_compared = 0;
  for (const auto& [name, expected] : golden()) {
    static const std::string kPrefix = "gradient.transformer.";
    if (!name.starts_with(kPrefix)) continue;
    SCOPED_TRACE(name);
    testing::expect_close(gradients.at(name.substr(kPrefix.size())), expected, kSlack);
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 3);
}

TEST(GPTTest, AFileOfGPT2IsWrittenAsItWasRead) {
  const StateDict file = foreign_file();
  const StateDict written = to_gpt2(from_gpt2(file, kTiny.heads), kTiny.heads);
  ASSERT_EQ(written.size(), file.size());
  for (const auto& [name, x] : written) {
    SCOPED_TRACE(name);
    testing::expect_same_bits(x, file.at("transformer." + name));
  }
}

TEST(GPTTest, MasksInAFileAreIgnored) {
  StateDict file = foreign_file();
  file["transformer.h.0.attn.bias"] = ones({1, 1, 12, 12}, {.device = Device()});
  file["lm_head.weight"] = file.at("transformer.wte.weight");
  Sequential net = gpt(kTiny);
  net.load_state_dict(from_gpt2(file, kTiny.heads));
}

TEST(GPTTest, TheDefaultModelHasTenMillionParameters) {
  const Sequential net = gpt();
  EXPECT_EQ(net.num_parameters(),
            256 * 384 + 256 * 384 + 6 * (12 * 384 * 384 + 13 * 384) + 2 * 384);
}

// A model without positions after the current one could not tell that later tokens exist.
TEST(GPTTest, LogitsDependOnEarlierTokensOnly) {
  Sequential net = foreign_model();
  const Tensor tokens = golden().at("tokens");
  const Tensor whole = net(on_device(tokens)), part = net(on_device(slice(tokens, 1, 0, 5)));
  testing::expect_close(slice(whole, 1, 0, 5), part);
}

TEST(GPTTest, AGeneratorContinuesAsTheWholeSequenceDoes) {
  Sequential net = foreign_model();
  const Tensor tokens = on_device(golden().at("tokens"));
  const Tensor expected = net(tokens);
  GPTGenerator generator(net);
  testing::expect_close(generator.next(slice(tokens, 1, 0, 4)), select(expected, 1, 3), kSlack);
  for (std::int64_t t = 4; t < tokens.size(1); ++t)
    testing::expect_close(generator.next(slice(tokens, 1, t, t + 1)), select(expected, 1, t),
                          kSlack);
  testing::expect_throws<ShapeError>([&] { generator.next(slice(tokens, 1, 0, 1)); },
                                     "at most 12 tokens");
}

TEST(GPTTest, GeneratorsOfOneModelDoNotMeet) {
  Sequential net = foreign_model();
  const Tensor tokens = on_device(golden().at("tokens"));
  const Tensor start = slice(tokens, 1, 0, 4), next = slice(tokens, 1, 4, 5);
  const Tensor expected = net(tokens);
  std::optional<GPTGenerator> first(net);
  first->next(start);
  GPTGenerator second(net);
  second.next(start);
  testing::expect_close(first->next(next), select(expected, 1, 4), kSlack);
  first.reset();
  testing::expect_close(second.next(next), select(expected, 1, 4), kSlack);
}

TEST(GPTTest, ACallOfAGeneratorThatFailsAddsNoTokens) {
  Sequential net = foreign_model();
  const Tensor tokens = on_device(golden().at("tokens"));
  const Tensor expected = net(tokens);
  GPTGenerator generator(net);
  generator.next(slice(tokens, 1, 0, 4));
  auto hook = net.layer(net.num_layers() - 1).add_forward_pre_hook([](Module&, const Tensor&) {
    throw ValueError("the head fails", Where::current());
    return Tensor();
  });
  testing::expect_throws<ValueError>([&] { generator.next(slice(tokens, 1, 0, 3)); }, "head fails");
  hook.remove();
  testing::expect_close(generator.next(slice(tokens, 1, 4, 5)), select(expected, 1, 4), kSlack);
}

TEST(GPTTest, AGeneratorKnowsTheLayersItBeganWith) {
  Sequential net = foreign_model(), grown = foreign_model();
  GPTGenerator generator(grown);
  grown.append(std::move(net));
  testing::expect_throws<ValueError>([&] { generator.next(golden().at("tokens")); },
                                     "GPTGenerator: the model must keep its ");
}

TEST(GPTTest, BesideAGeneratorTheModelTrainsAsBefore) {
  Sequential net = foreign_model();
  const Tensor tokens = on_device(golden().at("tokens"));
  const auto gradient = [&] {
    net.zero_grad();
    cross_entropy(flatten(net(tokens), 0, 1), flatten(tokens, 0, 1)).backward();
    return clone(net.parameters().front().grad());
  };
  const Tensor expected = gradient();
  net.layer(2).eval();  // the dropout, as one that fine-tunes might
  GPTGenerator generator(net);
  generator.next(tokens);
  EXPECT_TRUE(net.is_training() && net.layer(3).is_training());
  EXPECT_FALSE(net.layer(2).is_training());
  testing::expect_same_bits(gradient(), expected);
}

TEST(GPTTest, ThrowsUnlessHeadsDivideTheWidth) {
  testing::expect_throws<ValueError>([] { gpt({.heads = 5, .width = 16}); },
                                     "gpt: heads must divide the width; got 5 and 16");
}

TEST(GPTTest, ThrowsForASequenceLongerThanTheContext) {
  Sequential net = gpt(kTiny);
  testing::expect_throws<ShapeError>(
      [&] {
        net(zeros({1, 13}, {.dtype = DType::int64}));
      },
      "at most 12 tokens, its context; got 13");
}

}  // namespace
}  // namespace ringrad::nn
