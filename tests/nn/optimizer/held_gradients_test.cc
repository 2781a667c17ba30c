// Other code holds a gradient that lives in an arena, while it is cleared and the next one comes.

#include <gtest/gtest.h>

#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/dlpack.h"
#include "ringrad/nn/arena.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using Values = std::vector<float>;

// Where arrays of other libraries can be made, also if the GPUs are simulated.
const Options kOnHost{.device = Device()};

Tensor array_of(const Tensor& x) { return from_dlpack(to_dlpack(x)); }

TEST(HeldGradientsTest, TheyAndTheirViewsKeepTheirValues) {
  for (const bool by_arena : {true, false}) {
    const Tensor w = ones({2}).set_requires_grad();
    const ParameterArena arena({w});
    std::vector<Tensor> held;
    for (const double factor : {1., 2., 3., 4.}) {
      by_arena ? arena.clear_gradients() : clear_gradient(w);
      sum(w * tensor({factor, 2 * factor})).backward();
      held.push_back(factor == 1 ? w.grad() : reshape(w.grad(), {2, 1}));
      if (factor == 2) held.push_back(w.grad());
      if (factor == 3) arena.settle();
    }
    arena.settle();
    EXPECT_EQ(held[0].to_vector<float>(), (Values{1, 2}));
    EXPECT_EQ(held[1].to_vector<float>(), (Values{2, 4}));
    EXPECT_EQ(held[2].to_vector<float>(), (Values{2, 4}));
    EXPECT_EQ(held[3].to_vector<float>(), (Values{3, 6}));
    EXPECT_EQ(w.grad().to_vector<float>(), (Values{4, 8}));
    EXPECT_EQ(w.grad().raw_data(), arena.gradients().raw_data());
  }
}

TEST(HeldGradientsTest, ViewsStayViewsOfTheirGradient) {
  const Tensor w = ones({2}).set_requires_grad();
  const ParameterArena arena({w});
  sum(w).backward();
  const Tensor held = w.grad(), view = reshape(held, {2, 1});
  arena.clear_gradients();
  fill_(held, 5);
  EXPECT_EQ(view.to_vector<float>(), (Values{5, 5}));
}

TEST(HeldGradientsTest, ViewsKeepTheirValuesIfGradientsAreClearedTwice) {
  const Tensor w = ones({2}, kOnHost).set_requires_grad();
  const ParameterArena arena({w});
  sum(w).backward();
  const Tensor view = reshape(w.grad(), {2, 1}), array = array_of(w.grad());
  arena.clear_gradients();
  arena.clear_gradients();
  sum(w * 3).backward();
  EXPECT_EQ(view.to_vector<float>(), (Values{1, 1}));
  EXPECT_EQ(array.to_vector<float>(), (Values{1, 1}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Values{3, 3}));
}

TEST(HeldGradientsTest, ArraysOfOtherLibrariesKeepTheirValuesUntilTheArenaSettles) {
  const Tensor w = ones({2}, kOnHost).set_requires_grad();
  const ParameterArena arena({w});
  std::vector<Tensor> arrays;
  for (const double factor : {1., 2., 3.}) {
    arena.clear_gradients();
    sum(w * factor).backward();
    arrays.push_back(array_of(w.grad()));
  }
  EXPECT_EQ(arrays[0].to_vector<float>(), (Values{1, 1}));
  EXPECT_EQ(arrays[1].to_vector<float>(), (Values{2, 2}));
  arena.settle();
  EXPECT_EQ(arrays[0].to_vector<float>(), (Values{3, 3}));
}

// The product would be written where its operand is.
TEST(HeldGradientsTest, AClearedGradientMayBeAnOperand) {
  for (const bool as_array : {false, true}) {
    const Tensor w = ones({64, 64}, as_array ? kOnHost : Options()).set_requires_grad();
    const ParameterArena arena({w});
    sum(w * 3).backward();
    const Tensor held = as_array ? array_of(w.grad()) : w.grad().detach();
    arena.clear_gradients();
    arena.clear_gradients();
    sum(linear(held, w) * (w.detach() + 1)).backward();
    EXPECT_EQ(w.grad().to_vector<float>(), Values(4096, 384));
  }
}

TEST(HeldGradientsTest, AGraphThatSavedOneOutlivesTheClearing) {
  for (const bool as_view : {false, true}) {
    const Tensor w = ones({2}).set_requires_grad(), v = ones({2}).set_requires_grad();
    const ParameterArena arena({w});
    sum(w * tensor({3., 4.})).backward();
    const Tensor y = sum((as_view ? w.grad().detach() : w.grad()) * v);
    arena.clear_gradients();
    y.backward();
    EXPECT_EQ(v.grad().to_vector<float>(), (Values{3, 4}));
  }
}

TEST(HeldGradientsTest, TheyKeepTheirValuesIfTheNextOneIsRecorded) {
  const Tensor w = ones({2}).set_requires_grad();
  const ParameterArena arena({w});
  sum(w).backward();
  const Tensor held = w.grad();
  sum(w * 3).backward({}, {.create_graph = true});
  EXPECT_EQ(w.grad().to_vector<float>(), (Values{4, 4}));
  arena.settle();
  EXPECT_EQ(held.to_vector<float>(), (Values{1, 1}));
}

TEST(HeldGradientsTest, AnotherLeafMayTakeOne) {
  for (const bool owner_first : {false, true}) {
    const Tensor w = ones({2}).set_requires_grad(), other = ones({2}).set_requires_grad();
    const ParameterArena arena({w});
    sum(w).backward();
    other.set_grad(w.grad());
    clear_gradient(owner_first ? w : other);
    sum((owner_first ? w : other) * 3).backward();
    arena.settle();
    EXPECT_EQ(w.grad().to_vector<float>(), Values(2, owner_first ? 3 : 1));
    EXPECT_EQ(other.grad().to_vector<float>(), Values(2, owner_first ? 1 : 3));
  }
}

// It lies in the slot, but not as the optimizer reads it.
TEST(HeldGradientsTest, AViewMayBecomeTheGradient) {
  const Tensor w = ones({2, 2}).set_requires_grad();
  const ParameterArena arena({w});
  sum(w * tensor({{1., 2.}, {3., 4.}})).backward();
  w.set_grad(transpose(w.grad(), 0, 1));
  arena.settle();
  EXPECT_EQ(arena.gradients().to_vector<float>()[1], 3);
  EXPECT_EQ(w.grad().to_vector<float>(), (Values{1, 3, 2, 4}));
}

}  // namespace
}  // namespace ringrad::nn
