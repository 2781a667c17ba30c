// Hooks of tensors: what they may do to the gradient, and to the list that they are called from.

#include "ringrad/autograd/hooks.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

Tensor leaf(float value) { return tensor({value}).set_requires_grad(); }

TEST(HooksTest, HookReplacesTheGradientUntilItIsRemoved) {
  const Tensor x = leaf(1);
  HookHandle handle = register_hook(x, [](const Tensor& gradient) { return gradient * 100; });
  (x * 2).backward();
  EXPECT_EQ(x.grad().item(), 200);
  handle.remove();
  x.set_grad({});
  (x * 2).backward();
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(HooksTest, HooksNeedATensorThatRequiresAGradient) {
  EXPECT_THROW(register_hook(tensor({1.f}), [](const Tensor& g) { return g; }), AutogradError);
  EXPECT_THROW(register_completed_hook(leaf(1) * 2, [](const Tensor&) {}), AutogradError);
}

TEST(HooksTest, AHookMayRemoveItselfAndLaterOnesStillRun) {
  const Tensor x = leaf(1);
  std::vector<std::string> calls;
  std::optional<HookHandle> once;
  once = register_hook(x, [&](const Tensor&) {
    calls.push_back("once");
    once->remove();
    return Tensor();
  });
  register_hook(x, [&](const Tensor&) {
    calls.push_back("always");
    return Tensor();
  });
  (x * 2).backward();
  (x * 2).backward();
  EXPECT_EQ(calls, (std::vector<std::string>{"once", "always", "always"}));
}

// Enough additions to move any array that the running hooks might be read from.
TEST(HooksTest, HooksMayAddHooksWhichRunFromTheNextPassOn) {
  const Tensor x = leaf(1);
  int completed = 0;
  const auto count = [&](const Tensor&) { ++completed; };
  const auto twice = [](const Tensor& gradient) { return gradient * 2; };
  register_completed_hook(x, [&, calls = 0](const Tensor&) mutable {
    if (calls++ > 0) return;
    for (int i = 0; i < 5; ++i) register_completed_hook(x, count);
  });
  register_completed_hook(x, count);
  HookHandle adds = register_hook(x, [&](const Tensor&) {
    for (int i = 0; i < 5; ++i) register_hook(x, twice);
    return Tensor();
  });
  register_hook(x, twice);
  (x * 3).backward();
  EXPECT_EQ(x.grad().item(), 3 * 2);
  EXPECT_EQ(completed, 1);
  adds.remove();
  x.set_grad({});
  (x * 3).backward();
  EXPECT_EQ(x.grad().item(), 3 * 64);
  EXPECT_EQ(completed, 1 + 6);
}

TEST(HooksTest, AHookThatAnEarlierOneRemovedDoesNotRun) {
  const Tensor x = leaf(1);
  std::optional<HookHandle> later;
  register_hook(x, [&](const Tensor&) {
    later->remove();
    return Tensor();
  });
  later = register_hook(x, [](const Tensor& gradient) { return gradient * 100; });
  (x * 2).backward();
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(HooksTest, AHookMustKeepTheShape) {
  const Tensor x = leaf(1), y = x * 2;
  register_hook(y, [](const Tensor&) { return ones({2}); });
  EXPECT_THROW(y.backward(), ShapeError);
}

}  // namespace
}  // namespace ringrad
