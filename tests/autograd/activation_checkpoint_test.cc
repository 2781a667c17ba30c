#include "ringrad/autograd/activation_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

TEST(ActivationCheckpointTest, GivesTheGradientsOfTheSegmentItself) {
  const Tensor x = tensor({0.5f, -1.f}).set_requires_grad();
  const Tensor w = tensor({2.f, 3.f}).set_requires_grad();
  const auto segment = [&](const std::vector<Tensor>& inputs) {
    return tanh(exp(inputs[0]) * w) * w;
  };
  sum(segment({x})).backward();
  const auto x_grad = x.grad().to_vector<float>(), w_grad = w.grad().to_vector<float>();
  x.zero_grad();
  w.zero_grad();
  sum(activation_checkpoint(segment, {x})).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), x_grad);
  EXPECT_EQ(w.grad().to_vector<float>(), w_grad);
}

// w is a leaf of the outer pass and of the pass inside the checkpoint: neither may lose the other's
// part.
TEST(ActivationCheckpointTest, LeafUsedInsideAndOutsideReceivesBothParts) {
  const Tensor w = tensor({2.f}).set_requires_grad();
  const Tensor inside =
      activation_checkpoint([&](const std::vector<Tensor>& v) { return v[0] * w; }, {w * 5});
  (inside + w * 100).backward();
  EXPECT_EQ(w.grad().item(), 2 * 5 * 2 + 100);
}

TEST(ActivationCheckpointTest, HooksOfASharedLeafSeeEachPart) {
  const Tensor w = tensor({2.f}).set_requires_grad();
  std::vector<float> parts;
  register_hook(w, [&](const Tensor& grad) {
    parts.push_back(grad.item());
    return Tensor();
  });
  const auto times_w = [&](const std::vector<Tensor>& v) { return v[0] * w; };
  (activation_checkpoint(times_w, {ones({1}) * 5}) + w * 100).backward();
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(parts, (std::vector<float>{5, 100}));
}

TEST(ActivationCheckpointTest, IntegersRequireNoGradient) {
  const Tensor x = tensor({1.f, 3.f}).set_requires_grad();
  const auto position = [](const std::vector<Tensor>& v) { return argmax(v[0], 0); };
  EXPECT_FALSE(activation_checkpoint(position, {x}).requires_grad());
  testing::expect_throws<ValueError>([&] { activation_checkpoint(position, {Tensor()}); },
                                     "got an undefined input 0");
}

TEST(ActivationCheckpointTest, RunsTheSegmentAgainInBackwardOnly) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  int calls = 0;
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        ++calls;
        return exp(v[0]);
      },
      {x});
  EXPECT_EQ(calls, 1);
  y.backward();
  EXPECT_EQ(calls, 2);
}

TEST(ActivationCheckpointTest, RandomNumbersAreTheSameInBothRuns) {
  manual_seed(7);
  const Tensor x = ones({64}).set_requires_grad();
  std::vector<std::vector<float>> draws;
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        const Tensor noise = rand({64});
        draws.push_back(noise.to_vector<float>());
        return v[0] * noise;
      },
      {x});
  const float next = rand({1}).item();
  sum(y).backward();
  ASSERT_EQ(draws.size(), 2u);
  EXPECT_EQ(draws[0], draws[1]);
  EXPECT_EQ(x.grad().to_vector<float>(), draws[0]);
  manual_seed(7);
  rand({64});
  EXPECT_EQ(rand({1}).item(), next) << "backward must not disturb the stream";
}

// A generator of the user's own advances once, as without a checkpoint, and so do one inside f and
// one of f's own.
TEST(ActivationCheckpointTest, EveryGeneratorDrawsTheSameNumbersInBothRuns) {
  const Tensor x = ones({64}).set_requires_grad();
  Generator theirs(3), other(4);
  std::vector<Tensor> drawn;
  const auto f = [&, own = Generator(5)](const std::vector<Tensor>& v) mutable {
    Generator inner(6);
    Tensor y = v[0];
    for (Generator* generator : {&theirs, &other, &own, &inner, &theirs}) {
      drawn.push_back(rand({64}, {}, *generator));
      y = y * drawn.back();
    }
    return y * dropout(y, 0.5, true, theirs);
  };
  const Tensor y = activation_checkpoint(f, {x});
  const std::uint64_t offset = theirs.offset();
  EXPECT_EQ(offset, 3u * 16);
  rand({8}, {}, theirs);
  manual_seed(12);
  sum(y).backward();
  ASSERT_EQ(drawn.size(), 10u);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(drawn[i].to_vector<float>(), drawn[i + 5].to_vector<float>()) << i;
  EXPECT_EQ(theirs.offset(), offset + 2);
  // y = c x^2 with the same c in both runs, so that its gradient is 2 y.
  testing::expect_close(x.grad(), y.detach() * 2);
}

TEST(ActivationCheckpointTest, RefusesOtherRandomNumbers) {
  const Tensor x = ones({4}).set_requires_grad();
  Generator generator(1);
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) { return v[0] * rand({4}, {}, generator); }, {x});
  generator = Generator(2);
  testing::expect_throws<AutogradError>(
      [&] { sum(y).backward(); },
      "must draw the same random numbers again; got draw 1 of 1 with seed 2");
}

// What f uses besides its inputs, and a function of it, by the way in which it enters.
TEST(ActivationCheckpointTest, RefusesWhatWasChangedBetweenTheRuns) {
  struct Case {
    const char* name;
    Tensor used;
    std::function<Tensor(const Tensor& x, const Tensor& used)> function;
  };
  const Tensor positions = tensor({0, 1});
  const Case cases[] = {
      {"weight", ones({2}).set_requires_grad(),
       [](const Tensor& x, const Tensor& w) { return x * w; }},
      {"bias", ones({2}).set_requires_grad(),
       [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"constant", ones({2}), [](const Tensor& x, const Tensor& c) { return x + c; }},
      {"constant by itself", ones({2}),
       [](const Tensor& x, const Tensor& c) { return x * exp(c); }},
      {"view", ones({2, 2}), [](const Tensor& x, const Tensor& c) { return x * c[0]; }},
      {"index", positions,
       [](const Tensor& x, const Tensor& index) { return index_select(x, 0, index) * x; }},
      {"mask", ones({2}, {.dtype = DType::bool_}),
       [](const Tensor& x, const Tensor& mask) { return where(mask, x, 0); }},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const Tensor x = tensor({2., 3.}).set_requires_grad();
    const auto run = [&] {
      return activation_checkpoint(
          [&](const std::vector<Tensor>& v) { return row.function(v[0], row.used); }, {x});
    };
    const auto change = [&] {
      const NoGradGuard guard;
      copy_(row.used, clone(row.used));
    };
    change();
    Tensor y = run();
    sum(y).backward();  // changes before it do not count
    y = run();
    change();
    testing::expect_throws<AutogradError>([&] { sum(y).backward(); },
                                          "what the function uses must not change before backward");
    y = run();
    sum(y).backward();
  }
}

TEST(ActivationCheckpointTest, MayWriteIntoMemoryOfItsOwn) {
  const Tensor x = ones({2}).set_requires_grad(), scratch = zeros({2});
  const auto f = [&](const std::vector<Tensor>& v) {
    copy_(scratch, tensor({3., 4.}));
    return v[0] * scratch;
  };
  const Tensor y = activation_checkpoint(f, {x});
  zero_(scratch);
  sum(y).backward();
  testing::expect_close(x.grad(), {3, 4});
}

TEST(ActivationCheckpointTest, CheckpointsNest) {
  const Tensor x = tensor({0.3f}).set_requires_grad();
  const auto inner = [](const std::vector<Tensor>& v) { return exp(v[0]); };
  const auto outer = [&](const std::vector<Tensor>& v) {
    return activation_checkpoint(inner, {square(v[0])}) * v[0];
  };
  activation_checkpoint(outer, {x}).backward();
  const Tensor reference = tensor({0.3f}).set_requires_grad();
  (exp(square(reference)) * reference).backward();
  EXPECT_FLOAT_EQ(x.grad().item(), reference.grad().item());
}

TEST(ActivationCheckpointTest, RefusesToBeRecordedTwice) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  const Tensor y =
      activation_checkpoint([](const std::vector<Tensor>& v) { return exp(v[0]); }, {x});
  EXPECT_THROW(y.backward({}, {.create_graph = true}), AutogradError);
}

TEST(ActivationCheckpointTest, RefusesGradWhichMustLeaveLeavesAlone) {
  const Tensor x = tensor({1.f}).set_requires_grad(), w = tensor({2.f}).set_requires_grad();
  const Tensor y =
      activation_checkpoint([&](const std::vector<Tensor>& v) { return v[0] * w; }, {x});
  EXPECT_THROW(grad(y, w), AutogradError);
  EXPECT_FALSE(w.grad().defined());
}

TEST(ActivationCheckpointTest, AFailureLeavesTheStreamOfRandomNumbersAsItWas) {
  const Tensor x = tensor({1.f}).set_requires_grad();
  int calls = 0;
  manual_seed(7);
  const Tensor y = activation_checkpoint(
      [&](const std::vector<Tensor>& v) {
        if (++calls == 2) throw ValueError("told to fail", Where::current());
        return v[0] * rand({1});
      },
      {x});
  Generator before = default_generator();
  EXPECT_THROW(y.backward(), ValueError);
  EXPECT_EQ(rand({1}).item(), rand({1}, {}, before).item());
}

}  // namespace
}  // namespace ringrad
