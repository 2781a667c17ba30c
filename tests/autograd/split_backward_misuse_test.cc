// Errors in a split backward pass and the state they leave; and functions that run a pass of their
// own.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/autograd/split_backward.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/core/random/random.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

using Tensors = std::vector<Tensor>;

Tensor leaf(float value) { return tensor({value}).set_requires_grad(); }

SplitBackward first_half(const Tensor& y, const Tensors& inputs) {
  return backward_inputs({&y, 1}, {}, inputs);
}

// -- Wrong calls ----------------------------------------------------------------------------------

TEST(SplitBackwardMisuseTest, ASecondHalfRunsOnce) {
  const Tensor x = leaf(2), w = leaf(3);
  WeightGradients weights = first_half(x * w, {x}).weights;
  EXPECT_TRUE(weights.is_due());
  WeightGradients moved = std::move(weights);
  const char* const text = "it must be called once for each first half";
  expect_throws<AutogradError>([&] { weights.accumulate(); }, text);
  expect_throws<AutogradError>([] { WeightGradients().accumulate(); }, text);
  moved.accumulate();
  EXPECT_FALSE(moved.is_due());
  expect_throws<AutogradError>([&] { moved.accumulate(); }, text);
  EXPECT_EQ(w.grad().item(), 2);
}

TEST(SplitBackwardMisuseTest, ArgumentsAreCheckedLikeThoseOfBackward) {
  const Tensor x = leaf(2), many = ones({2}).set_requires_grad() * 2, y = x * 2;
  expect_throws<AutogradError>([&] { first_half(y, {tensor({1.f})}); },
                               "backward_inputs: every input must require a gradient");
  expect_throws<AutogradError>([&] { first_half(y, {Tensor()}); }, "got an undefined tensor");
  expect_throws<AutogradError>([&] { first_half(tensor({1.f}), {x}); }, "without history");
  expect_throws<ShapeError>([&] { first_half(many, {}); }, "needs a gradient of its shape");
  expect_throws<ValueError>(
      [&] {
        backward_inputs({&y, 1}, Tensors{y, y}, {});
      },
      "one gradient per");
  EXPECT_EQ(first_half(y, {x}).grad_inputs[0].item(), 2);
}

TEST(SplitBackwardMisuseTest, TheGraphIsFreedAsByBackward) {
  const Tensor x = leaf(2), w = leaf(3);
  const Tensor y = x * w;
  auto [grads, weights] = first_half(y, {x});
  EXPECT_THROW(y.backward(), AutogradError);
  EXPECT_THROW(first_half(y, {x}), AutogradError);
  EXPECT_FALSE(w.grad().defined());
  weights.accumulate();
  EXPECT_THROW(y.backward(), AutogradError);
  EXPECT_EQ(w.grad().item(), 2);
}

// -- Changes between the halves -------------------------------------------------------------------

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const AutogradError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(SplitBackwardMisuseTest, ASavedTensorThatChangesBetweenTheHalvesIsNamedWithBothLines) {
  const Tensor x = leaf(2), w = leaf(3), activation = exp(x);
  WeightGradients weights = first_half(activation * w, {x}).weights;
  zero_(activation.detach());
  const std::string message = message_of([&] { weights.accumulate(); });
  EXPECT_NE(message.find("backward of mul"), std::string::npos) << message;
  EXPECT_GE(occurrences(message, "split_backward_misuse_test.cc"), 2) << message;
  EXPECT_FALSE(w.grad().defined());
  EXPECT_THROW(weights.accumulate(), AutogradError);
}

TEST(SplitBackwardMisuseTest, AKeptGradientThatChangesBetweenTheHalvesIsNamedWithBothLines) {
  const Tensor x = ones({2}).set_requires_grad(), w = leaf(3), b = leaf(0), received = ones({2});
  for (const Tensor& y : {x * w, w * 1 + expand(b, {2})}) {
    WeightGradients weights = backward_inputs({&y, 1}, {&received, 1}, {&x, 1}).weights;
    zero_(received);  // as when the next micro-batch is received into it
    const std::string message = message_of([&] { weights.accumulate(); });
    EXPECT_NE(message.find("must not change between the halves"), std::string::npos) << message;
    EXPECT_GE(occurrences(message, "split_backward_misuse_test.cc"), 2) << message;
  }
}

TEST(SplitBackwardMisuseTest, AChangeOfWhatTheFirstHalfHasComputedForTheSecondIsNoticed) {
  const Tensor x = ones({2}).set_requires_grad(), w = ones({2}).set_requires_grad();
  const Tensor received = ones({2}),
               y = add_gradients(x, w, Where::current());  // sets both gradients at once
  WeightGradients weights = backward_inputs({&y, 1}, {&received, 1}, {&x, 1}).weights;
  zero_(received);
  const std::string message = message_of([&] { weights.accumulate(); });
  EXPECT_NE(message.find("backward of add_gradients"), std::string::npos) << message;
  EXPECT_FALSE(w.grad().defined());
}

// -- Errors inside of a half ----------------------------------------------------------------------

TEST(SplitBackwardMisuseTest, AFirstHalfThatFailsLeavesNothingBehind) {
  const auto before = allocator_stats().allocated_bytes;
  {
    const Tensor x = leaf(2), w = leaf(3);
    bool fails = true;
    Tensor y = tensor({6.f});
    record("fragile", Where::current(), y, {&x, &w}, [&](BackwardContext& context) {
      if (fails) throw ValueError("told to fail", Where::current());
      for (int i = 0; i < 2; ++i)
        if (context.needs(i)) context.set(i, context.grad_output() * (i + 1));
    });
    EXPECT_THROW(first_half(y, {x}), ValueError);
    EXPECT_FALSE(x.grad().defined() || w.grad().defined());
    fails = false;
    y.backward();
    EXPECT_EQ(x.grad().item(), 1);
    EXPECT_EQ(w.grad().item(), 2);

    const Tensor deep = square(x * w) * w;
    register_hook(x, [](const Tensor&) -> Tensor { throw ValueError("told to fail", {}); });
    EXPECT_THROW(first_half(deep, {x}), ValueError);
  }
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

TEST(SplitBackwardMisuseTest, ASecondHalfThatFailsLeavesNothingBehind) {
  const auto before = allocator_stats().allocated_bytes;
  {
    const Tensor x = leaf(2), v = leaf(3), w = leaf(5);
    const Tensor of_weights = v * 1;
    HookHandle handle = register_hook(
        of_weights, [](const Tensor&) -> Tensor { throw ValueError("told to fail", {}); });
    WeightGradients weights = first_half(x * of_weights * w, {x}).weights;
    EXPECT_THROW(weights.accumulate(), ValueError);
    EXPECT_EQ(weights.num_roots(), 0u);
    EXPECT_EQ(w.grad().item(), 6);
    handle.remove();
    first_half(x * v, {x}).weights.accumulate();
    EXPECT_EQ(v.grad().item(), 2);
  }
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

// -- Functions that run a backward pass of their own ----------------------------------------------

struct Gradients {
  Tensor x, v, w;
};

// A checkpointed segment that takes x and v as inputs and uses w from outside, as does the code
// after it.
class CheckpointedSegment {
 public:
  Tensor run() {
    return activation_checkpoint(
               [this](const Tensors& in) {
                 ++num_runs;
                 return dropout(tanh(in[0] * in[1] * w), 0.5, true) * w + in[0];
               },
               {exp(x), v * 2, unused}) *
           w;
  }
  Gradients take() {
    const Gradients gradients{x.grad(), v.grad(), w.grad()};
    for (const Tensor& leaf : {x, v, w}) leaf.set_grad({});
    return gradients;
  }

  Random random{3};
  Tensor x = random.tensor({32}).set_requires_grad(), v = random.tensor({32}).set_requires_grad();
  Tensor w = random.tensor({32}).set_requires_grad(), unused = leaf(1);
  int num_runs = 0;
};

TEST(SplitBackwardMisuseTest, ACheckpointedSegmentIsSplitItself) {
  CheckpointedSegment segment;
  const Tensor grad = segment.random.tensor({32});
  manual_seed(9);
  segment.run().backward(grad);
  const Gradients whole = segment.take();
  segment.num_runs = 0;
  manual_seed(9);
  const Tensor y = segment.run();
  auto [grads, weights] = backward_inputs({&y, 1}, {&grad, 1}, {&segment.x, 1});
  expect_same_bits(grads[0], whole.x);
  for (const Tensor& leaf : {segment.v, segment.w}) EXPECT_FALSE(leaf.grad().defined());
  weights.accumulate();
  EXPECT_EQ(segment.num_runs, 2);  // forward, and the first half
  const Gradients split = segment.take();
  EXPECT_FALSE(split.x.defined());
  expect_same_bits(split.v, whole.v);
  expect_same_bits(split.w, whole.w);
}

TEST(SplitBackwardMisuseTest, ACheckpointedSegmentBelowNoInputRunsInTheSecondHalf) {
  CheckpointedSegment segment;
  const Tensor grad = segment.random.tensor({32}), other = leaf(2);
  manual_seed(9);
  (segment.run() * other).backward(grad);
  const Gradients whole = segment.take();
  manual_seed(9);
  const Tensor y = segment.run() * other;
  auto [grads, weights] = backward_inputs({&y, 1}, {&grad, 1}, {&other, 1});
  weights.accumulate();
  const Gradients split = segment.take();
  expect_same_bits(split.x, whole.x);
  expect_same_bits(split.v, whole.v);
  expect_same_bits(split.w, whole.w);
}

TEST(SplitBackwardMisuseTest, ACheckpointInsideOfACheckpointIsSplitToo) {
  const Tensor x = leaf(2), w = leaf(3);
  const auto inner = [&](const Tensors& in) { return square(in[0] * w); };
  const auto outer = [&](const Tensors& in) {
    return activation_checkpoint(inner, {in[0] * w}) * w;
  };
  activation_checkpoint(outer, {x}).backward();
  const Tensor grad_x = x.grad(), grad_w = w.grad();
  w.set_grad({});
  auto [grads, weights] = first_half(activation_checkpoint(outer, {x}), {x});
  EXPECT_FALSE(w.grad().defined());
  weights.accumulate();
  expect_same_bits(grads[0], grad_x);
  expect_same_bits(w.grad(), grad_w);
}

}  // namespace
}  // namespace ringrad
