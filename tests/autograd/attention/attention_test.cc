#include "ringrad/autograd/attention/attention.h"

#include <array>
#include <limits>
#include <map>
#include <string>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

struct Inputs {
  explicit Inputs(Random& random, DType dtype = DType::float64)
      : q(random.tensor({2, 4, 3, 5}, dtype).set_requires_grad()),
        k(random.tensor({2, 2, 4, 5}, dtype).set_requires_grad()),
        v(random.tensor({2, 2, 4, 3}, dtype).set_requires_grad()) {}

  Tensor q, k, v;
};

std::vector<AttentionOptions> kinds_of_options(Random& random) {
  return {{},
          {.causal = true},
          {.causal = true, .alignment = CausalAlignment::lower_right, .scale = 0.4},
          {.window = 2},
          {.mask = random.tensor({3, 4}, DType::bool_)},
          {.mask = random.tensor({4, 1, 4}, DType::float64)},
          {.causal = true, .dropout = 0.4}};
}

Tensor attend(const std::vector<Tensor>& in, const AttentionOptions& options) {
  Generator generator(3);  // the same mask of dropout at every call
  return scaled_dot_product_attention(in[0], in[1], in[2], options, generator);
}

// What is composed of operators needs thousands of kernels, which take long on a simulator.
bool composing_is_fast() { return default_device().is_cpu(); }

TEST(AttentionTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const Inputs in(random);
  for (const AttentionOptions& options : kinds_of_options(random)) {
    const auto f = [&](const std::vector<Tensor>& x) { return attend(x, options); };
    EXPECT_EQ(gradient_check(f, {in.q, in.k, in.v}), "");
    if (composing_is_fast()) {
      EXPECT_EQ(gradient_gradient_check(f, {in.q, in.k, in.v}), "");
    }
  }
}

TEST(AttentionTest, GradientsOfAMaskAgreeWithDifferences) {
  Random random(2);
  const Inputs in(random);
  const Tensor mask = random.tensor({4, 3, 1}, DType::float64).set_requires_grad();
  if (!composing_is_fast()) GTEST_SKIP() << "thousands of kernels";
  for (AttentionOptions options : kinds_of_options(random)) {
    const auto f = [&](const std::vector<Tensor>& x) {
      options.mask = x[3];
      return attend(x, options);
    };
    EXPECT_EQ(gradient_check(f, {in.q, in.k, in.v, mask}), "");
  }
}

// Of both forms, the fused one and the one that is composed of operators.
TEST(AttentionTest, ARecordedBackwardGivesTheSameNumbers) {
  Random random(3);
  const Inputs in(random);
  for (const AttentionOptions& options : kinds_of_options(random)) {
    const std::vector<Tensor> inputs{in.q, in.k, in.v};
    const auto gradients = [&](bool recorded) {
      const Tensor y = sum(square(attend(inputs, options)));
      return grad({&y, 1}, inputs, {}, {.create_graph = recorded});
    };
    const auto fused = gradients(false), composed = gradients(true);
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_close(composed[i], fused[i], 64);
  }
}

const std::map<std::string, AttentionOptions> kGolden = {
    {"plain", {}},
    {"causal", {.causal = true}},
    {"causal more queries", {.causal = true}},
    {"scale", {.scale = 0.3}},
    {"grouped heads", {.causal = true}},
    {"one head of keys", {}},
    {"one query", {}},
    {"bool mask", {}},
    {"added mask", {}},
    {"added mask with gradient", {}},
};

TEST(AttentionTest, ValuesAndGradientsMatchPyTorch) {
  const auto cases = testing::read_golden("scaled_dot_product");
  EXPECT_EQ(cases.size(), kGolden.size());
  for (const auto& [name, golden] : cases) {
    SCOPED_TRACE(name);
    AttentionOptions options = kGolden.at(name);
    if (golden.contains("mask"))
      options.mask = name == "bool mask" ? golden.at("mask") != 0 : golden.at("mask");
    if (golden.contains("grad.mask")) options.mask.set_requires_grad();
    const Tensor q = golden.at("q").set_requires_grad(), k = golden.at("k").set_requires_grad(),
                 v = golden.at("v").set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, k, v, options);
    expect_close(y, golden.at("output"));
    sum(y * golden.at("output_weights")).backward();
    expect_close(q.grad(), golden.at("grad.q"));
    expect_close(k.grad(), golden.at("grad.k"));
    expect_close(v.grad(), golden.at("grad.v"));
    if (golden.contains("grad.mask")) expect_close(options.mask.grad(), golden.at("grad.mask"));
  }
}

// A matrix of scores would take 64 MiB. The peak counts large blocks only.
TEST(AttentionTest, MemoryGrowsWithTheLengthNotWithItsSquare) {
  if (default_device().is_cuda()) GTEST_SKIP() << "the allocator of the host";
  Random random(8);
  const auto peak_for = [&](std::int64_t T) {
    const auto leaf = [&] { return random.tensor({1, 1, T, 16}).set_requires_grad(); };
    const Tensor q = leaf(), k = leaf(), v = leaf();
    reset_peak_stats();
    const std::int64_t before = allocator_stats().allocated_bytes;
    sum(scaled_dot_product_attention(q, k, v, {.causal = true})).backward();
    return allocator_stats().peak_allocated_bytes - before;
  };
  const std::int64_t half = peak_for(2048), whole = peak_for(4096);
  EXPECT_LT(whole, 16 << 20);
  EXPECT_LT(whole, 3 * half);  // a square would take four times as much
}

TEST(AttentionTest, WorksOn16BitDtypesAndUnderAutocast) {
  Random random(4);
  const Inputs in(random, DType::float32);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Autocast mixed(dtype);
    const Tensor y = attend({in.q, in.k, in.v}, {.causal = true});
    EXPECT_EQ(y.dtype(), dtype);
    sum(y * y).backward();
    EXPECT_EQ(in.q.grad().dtype(), DType::float32);
  }
}

// The probabilities of a query add up to 1, and so do these gradients of the values. Scores reach
// 1e9, where floats are 64 apart, but rounding must not turn into a factor of 2^64.
TEST(AttentionTest, KeepsTheSumOfProbabilitiesWhereScoresAreLarge) {
  const auto value_gradient = [](const Tensor& q, const Tensor& k) {
    const Tensor v = ones_like(k).set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, k, v);
    y.backward(ones_like(y));
    return v.grad();
  };
  Random random(16);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const auto& [H, T, S, D] : std::initializer_list<std::array<std::int64_t, 4>>{
             {1, 1, 1, 1}, {2, 3, 9, 7}, {2, 8, 9, 7}, {1, 70, 40, 16}}) {
      SCOPED_TRACE(concat(Shape{H, T, S, D}, ' ', dtype));
      const Tensor q = random.tensor({1, H, T, D}, -4e4, 4e4, dtype),
                   k = random.tensor({1, 1, S, D}, -4e4, 4e4, dtype);
      double sum = 0;
      for (const double value : value_gradient(q, k).to_vector<double>()) sum += value;
      const auto right = static_cast<double>(H * T * D);
      EXPECT_LT(sum, 1.01 * right);
      EXPECT_GT(sum, default_device().is_cuda() ? 0 : 0.99 * right);
    }
  // 3280 * 7000 / ln 2 is one of the floats that ln 2 and its inverse do not give back.
  EXPECT_EQ(value_gradient(full({1, 1, 1, 1}, 3280.), full({1, 1, 1, 1}, 7000.)).item(), 1);
}

// Masks often hold the lowest finite number in place of -inf.
TEST(AttentionTest, ARowOfLowestNumbersIsTheMeanOfAllValues) {
  Random random(21);
  for (const std::int64_t T : {1, 9})
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
      const Tensor q = random.tensor({1, 1, T, 8}, dtype), k = random.tensor({1, 1, 7, 8}, dtype),
                   v = random.tensor({1, 1, 7, 8}, dtype);
      const double most = dtype == DType::float64 ? std::numeric_limits<double>::max()
                                                  : std::numeric_limits<float>::max();
      const Tensor lowest = full({7}, -most, {.dtype = math_dtype(dtype)});
      const Tensor mean_value = expand(mean(v, {2}, true), {1, 1, T, 8});
      expect_close(scaled_dot_product_attention(q, k, v, {.mask = lowest}), mean_value, 16);
    }
}

TEST(AttentionTest, AWindowMayBeLargerThanAllPositions) {
  Random random(22);
  const Tensor q = random.tensor({1, 2, 5, 8}), k = random.tensor({1, 1, 7, 8});
  AttentionOptions options{.alignment = CausalAlignment::lower_right};
  const Tensor expected = scaled_dot_product_attention(q, k, k, options);
  options.window = std::numeric_limits<std::int64_t>::max();
  expect_close(scaled_dot_product_attention(q, k, k, options), expected);
}

TEST(AttentionTest, MayHaveNoHeads) {
  const Tensor q = zeros({2, 0, 3, 4}).set_requires_grad(), k = zeros({2, 0, 5, 4});
  const Tensor y = scaled_dot_product_attention(q, k, k);
  sum(y).backward();
  EXPECT_EQ(y.shape(), q.shape());
  EXPECT_EQ(q.grad().shape(), q.shape());
}

TEST(AttentionTest, NoticesThatAMaskChanged) {
  Random random(5);
  const Inputs in(random);
  const Tensor mask = zeros({3, 4}, {.dtype = DType::float64});
  const Tensor y = attend({in.q, in.k, in.v}, {.mask = mask});
  add_(mask, 1);
  expect_throws<AutogradError>([&] { sum(y).backward(); }, "scaled_dot_product_attention");
}

TEST(AttentionTest, ThrowsAtTheCallersLine) {
  const Tensor x = ones({1, 2, 3, 4});
  expect_throws<ShapeError>([&] { scaled_dot_product_attention(x, x, ones({2})); },
                            "scaled_dot_product_attention");
}

}  // namespace
}  // namespace ringrad
