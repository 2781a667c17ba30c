#include "ringrad/autograd/engine.h"

#include <gtest/gtest.h>

#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::host_device;

Tensor leaf(float value) { return tensor({value}).set_requires_grad(); }

// The message of the error that body throws.
template <class ErrorType, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(EngineTest, DerivativeOfProductIsTheOtherFactor) {
  const Tensor a = leaf(3), b = leaf(5);
  (a * b).backward();
  EXPECT_EQ(a.grad().item(), 5);
  EXPECT_EQ(b.grad().item(), 3);
}

TEST(EngineTest, TensorUsedTwiceReceivesTheSumOfBothGradients) {
  const Tensor x = leaf(3);
  (x * x + x).backward();
  EXPECT_EQ(x.grad().item(), 7);
}

TEST(EngineTest, DiamondRunsTheSharedNodeOnceWithBothContributions) {
  const Tensor x = leaf(2);
  int calls = 0;
  Tensor shared = tensor({2.f});
  record("identity", Where::current(), shared, {&x}, [&](BackwardContext& context) {
    ++calls;
    context.set(0, context.grad_output());
  });
  (shared * 3 + exp(shared) * 0 + shared * shared).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 7);
}

TEST(EngineTest, GradientsAccumulateOverBackwardPasses) {
  const Tensor x = leaf(1);
  (x * 2).backward();
  (x * 3).backward();
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(EngineTest, StolenGradientsOfTwoLeavesDoNotShareMemory) {
  const Tensor a = leaf(1), b = leaf(1);
  (a + b).backward();
  (a * 10).backward();
  EXPECT_EQ(a.grad().item(), 11);
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(EngineTest, NothingIsRecordedUnderNoGrad) {
  const Tensor x = leaf(1);
  Tensor y;
  {
    const NoGradGuard guard;
    y = x * 2;
  }
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(EngineTest, DetachCutsTheGraph) {
  const Tensor x = leaf(3);
  (x * x.detach()).backward();
  EXPECT_EQ(x.grad().item(), 3);
}

TEST(EngineTest, SecondBackwardThroughFreedHistoryThrows) {
  const Tensor x = leaf(2);
  const Tensor y = x * x;
  y.backward();
  const std::string message = message_of<AutogradError>([&] { y.backward(); });
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
  EXPECT_NE(message.find("engine_test.cc"), std::string::npos) << message;
}

TEST(EngineTest, RetainGraphAllowsASecondBackward) {
  const Tensor x = leaf(2);
  const Tensor y = x * x;
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 8);
}

TEST(EngineTest, BackwardOfManyElementsNeedsAGradient) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  const Tensor y = x * 2;
  EXPECT_THROW(y.backward(), ShapeError);
  EXPECT_THROW(y.backward(ones({3})), ShapeError);
  EXPECT_THROW(y.backward(ones({2}, {.dtype = DType::float64})), DTypeError);
  y.backward(tensor({1., 10.}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 20}));
}

TEST(EngineTest, BackwardWithoutHistoryThrows) {
  EXPECT_THROW(tensor({1.f}).backward(), AutogradError);
  EXPECT_THROW(backward({}, std::vector<Tensor>{ones({1})}), ValueError);
}

TEST(EngineTest, IntegersCannotRequireGradients) {
  EXPECT_THROW(zeros({2}, {.dtype = DType::int64}).set_requires_grad(), DTypeError);
  EXPECT_THROW(zeros({2}, {.dtype = DType::int64, .requires_grad = true}), DTypeError);
}

TEST(EngineTest, OnlyLeavesCanChangeWhetherTheyRequireAGradient) {
  const Tensor y = leaf(1) * 2;
  EXPECT_FALSE(y.is_leaf());
  EXPECT_THROW(y.set_requires_grad(false), AutogradError);
}

TEST(EngineTest, GradReturnsGradientsWithoutTouchingLeaves) {
  const Tensor x = leaf(3), w = leaf(4);
  const Tensor hidden = x * x;
  const Tensor y = hidden * w;
  const std::vector<Tensor> inputs{hidden, x};
  const auto gradients = grad({&y, 1}, inputs);
  EXPECT_EQ(gradients[0].item(), 4);
  EXPECT_EQ(gradients[1].item(), 24);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(EngineTest, GradOfAnUnrelatedInputIsUndefined) {
  const Tensor x = leaf(3), other = leaf(1);
  EXPECT_FALSE(grad(x * 2, other).defined());
}

TEST(EngineTest, GivesTheThirdDerivativeOfAPower) {
  const Tensor x = leaf(2);
  const BackwardOptions recorded{.create_graph = true};
  const Tensor y = x * x * x * x;
  const Tensor first = grad(y, x, {}, recorded);
  const Tensor second = grad(first, x, {}, recorded);
  const Tensor third = grad(second, x, {}, recorded);
  EXPECT_EQ(first.item(), 32);
  EXPECT_EQ(second.item(), 48);
  EXPECT_EQ(third.item(), 48);
}

TEST(EngineTest, ErrorInABackwardFunctionLeavesTheNextPassClean) {
  const Tensor x = leaf(2);
  bool fail = true;
  Tensor y = tensor({2.f});
  record("fragile", Where::current(), y, {&x}, [&](BackwardContext& context) {
    if (fail) throw ValueError("fragile: told to fail", Where::current());
    context.set(0, context.grad_output());
  });
  const Tensor z = y * 3 + y * 4;
  EXPECT_THROW(z.backward({}, {.retain_graph = true}), ValueError);
  fail = false;
  z.backward();
  EXPECT_EQ(x.grad().item(), 7);
}

TEST(EngineTest, FunctionWithTwoOutputsSeesUndefinedGradientOfTheUnusedOne) {
  const Tensor x = leaf(5);
  const std::vector<Tensor> outputs{tensor({5.f}), tensor({25.f})};
  record("both", Where::current(), outputs, {&x, 1}, [](BackwardContext& context) {
    EXPECT_TRUE(context.grad_output(0).defined());
    EXPECT_FALSE(context.grad_output(1).defined());
    context.set(0, context.grad_output(0));
  });
  (outputs[0] * 3).backward();
  EXPECT_EQ(x.grad().item(), 3);
}

TEST(EngineTest, WrongShapeFromACustomFunctionIsNamed) {
  const Tensor x = leaf(1);
  Tensor y = tensor({1.f});
  record("careless", Where::current(), y, {&x},
         [](BackwardContext& context) { context.set(0, ones({2})); });
  EXPECT_THROW(y.backward(), ShapeError);
}

// Of an input that is not a leaf, and of a leaf that also gets another gradient: both would
// broadcast it.
TEST(EngineTest, WrongGradientsFromACustomFunctionAreNamedWhereverTheyGo) {
  const auto careless = [](const Tensor& x, const Tensor& gradient) {
    const Tensor y = x.detach();
    record("careless", Where::current(), y, {&x},
           [=](BackwardContext& context) { context.set(0, gradient); });
    return sum(y);
  };
  const Tensor x = ones({3}).set_requires_grad();
  expect_throws<ShapeError>(
      [&] { careless(exp(x), ones({})).backward(); },
      "backward of careless: the gradient of input 0 must have the input's shape; got () for (3,)");
  expect_throws<ShapeError>([&] { (careless(x, ones({})) + sum(x)).backward(); },
                            "got () for (3,)");
  expect_throws<DTypeError>(
      [&] { careless(exp(x), ones({3}, {.dtype = DType::float64})).backward(); }, "float64");
}

// The second gradient is added to the first in place, unless other code sees its memory.
TEST(EngineTest, AGradientThatIsPartOfAnArenaIsNotAddedTo) {
  const Tensor x = leaf(1), arena = full({2}, 5);
  const auto part = [&] {
    Ref<Storage> storage = Storage::slice(arena.storage(), 0, sizeof(float));
    return Tensor(make_ref<TensorImpl>(std::move(storage), 0, Shape{1}, Strides{1}, DType::float32,
                                       Where::current()));
  };
  const Tensor middle = x * 1, other = middle * 2, y = tensor({1.f});
  record("in_arena", Where::current(), y, {&middle},
         [&](BackwardContext& context) { context.set(0, part()); });
  (other + y).backward();
  EXPECT_EQ(x.grad().item(), 7);
  EXPECT_EQ(arena.to_vector<float>(), (std::vector<float>{5, 5}));
}

// A chain this long overflows the stack of any engine that recurses, in backward or when it is
// freed. The tape is the same for all devices, and a million kernels take a simulated GPU too long.
Tensor host_leaf() { return ones({1}, {.device = host_device()}).set_requires_grad(); }

TEST(EngineTest, AMillionOperationsRunBackwardAndAreFreedWithoutRecursion) {
  const Tensor x = host_leaf();
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + x;
  y.backward();
  EXPECT_EQ(x.grad().item(), 1'000'001);
}

TEST(EngineTest, AnUnusedMillionOperationChainIsFreedWithoutRecursion) {
  const std::int64_t before = allocator_stats().allocated_bytes;
  {
    const Tensor x = host_leaf();
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = y * 1.0f;
    EXPECT_GT(allocator_stats().allocated_bytes, before);
  }
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

TEST(EngineTest, BackwardFreesTheGraphItRan) {
  const Tensor x = leaf(1);
  x.set_grad(zeros({1}));
  const std::int64_t before = allocator_stats().allocated_bytes;
  sum(square(exp(x))).backward();
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

TEST(EngineTest, ALeafIsNotItsOwnGradient) {
  const Tensor x = leaf(2);
  expect_throws<AutogradError>([&] { x.set_grad(x); }, "got the leaf itself");
  x.set_grad(x.detach());
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(EngineTest, AFailedPassLeavesNoGradientOnTheGraph) {
  const auto before = allocator_stats().allocated_bytes;
  {
    const Tensor x = leaf(2), y = exp(x);
    // The gradient that waits at x is recorded: its history leads back to x.
    register_hook(x, [](const Tensor&) -> Tensor { throw ValueError("told to fail", {}); });
    const Tensor z = square(y);
    EXPECT_THROW(z.backward({}, {.create_graph = true}), ValueError);
  }
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

TEST(EngineTest, LastLayersFinishFirst) {
  const Tensor first = leaf(1), last = leaf(1);
  std::vector<std::string> order;
  register_completed_hook(first, [&](const Tensor&) { order.push_back("first"); });
  register_completed_hook(last, [&](const Tensor&) { order.push_back("last"); });
  const Tensor early = exp(first);
  (square(early) * last).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"last", "first"}));
}

TEST(EngineTest, CallbackRunsAfterTheWholePass) {
  const Tensor x = leaf(1);
  std::vector<std::string> events;
  const Tensor y = x * 2;
  register_hook(y, [&](const Tensor&) {
    at_end_of_backward([&] { events.push_back("end"); });
    return Tensor();
  });
  register_completed_hook(x, [&](const Tensor&) { events.push_back("leaf"); });
  y.backward();
  EXPECT_EQ(events, (std::vector<std::string>{"leaf", "end"}));
}

TEST(EngineTest, CallbackOfANestedPassRunsAfterTheOutermost) {
  const Tensor inner = leaf(1), outer = leaf(1);
  std::vector<std::string> events;
  register_completed_hook(inner, [&](const Tensor&) {
    events.push_back("inner");
    at_end_of_backward([&] { events.push_back("end"); });
  });
  register_completed_hook(outer, [&](const Tensor&) { events.push_back("outer"); });
  const Tensor y = outer * 2;
  register_hook(y, [&](const Tensor&) {
    const EnableGradGuard guard;
    (inner * 2).backward();
    return Tensor();
  });
  y.backward();
  EXPECT_EQ(events, (std::vector<std::string>{"inner", "outer", "end"}));
}

TEST(EngineTest, RecordedGradientsOfTwoLeavesDoNotShareMemory) {
  const Tensor a = leaf(1), b = leaf(1), weight = ones({1});
  (a + b).backward(weight, {.create_graph = true});
  (a * 3).backward();
  EXPECT_EQ(a.grad().item(), 4);
  EXPECT_EQ(b.grad().item(), 1);
  EXPECT_EQ(weight.item(), 1);
}

TEST(EngineTest, GradOfAnUndefinedInputThrows) {
  EXPECT_THROW(grad(leaf(1) * 2, Tensor()), AutogradError);
}

// The first gradient to arrive is expanded: its elements are one and the same number in memory.
TEST(EngineTest, ExpandedGradientsAreAddedToOthers) {
  const auto gradient_of = [](auto f) {
    const Tensor x = tensor({1., 2., 3.}).set_requires_grad();
    f(x).backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient_of([](const Tensor& x) { return sum(x) * 2 + sum(x) * 3; }),
            (std::vector<float>{5, 5, 5}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return mean(x) * 3 + mean(x) * 6; }),
            (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return sum(square(x)) + sum(x); }),
            (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return sum(x) + sum(square(x)); }),
            (std::vector<float>{3, 5, 7}));
}

TEST(EngineTest, AnExpandedLeafAccumulatesGradients) {
  const Tensor x = view::expand(zeros({1}), {3}).set_requires_grad();
  for (int i = 0; i < 2; ++i) sum(x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(EngineTest, AFrozenLeafKeepsItsHooksAndItsGradient) {
  const Tensor x = leaf(1);
  int calls = 0;
  register_completed_hook(x, [&](const Tensor&) { ++calls; });
  (x * 2).backward();
  x.set_requires_grad(false);
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_EQ(x.grad().item(), 2);
  x.set_requires_grad();
  (x * 3).backward();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(x.grad().item(), 5);
}

}  // namespace
}  // namespace ringrad
