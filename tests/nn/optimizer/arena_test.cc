#include "ringrad/nn/arena.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/node.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

std::vector<Tensor> three_parameters() {
  return {tensor({1., 2., 3.}).set_requires_grad(),
          tensor({{4., 5.}, {6., 7.}}).set_requires_grad(),
          ones({2, 3, 4, 5}, {.layout = Layout::channels_last}).set_requires_grad()};
}

float gradient_at(const ParameterArena& arena, std::int64_t i) {
  return arena.gradients().to_vector<float>()[static_cast<std::size_t>(i)];
}

TEST(ArenaTest, ParametersKeepTheirValuesAndBecomeSlices) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  EXPECT_EQ(p[0].to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(p[1].to_vector<float>(), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_TRUE(p[2].is_channels_last());
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(p[i].device_data<float>(),
              arena.values().device_data<float>() + arena.slices()[i].offset);
    EXPECT_EQ(p[i].grad().device_data<float>(),
              arena.gradients().device_data<float>() + arena.slices()[i].offset);
    EXPECT_EQ(arena.slices()[i].offset % 16, 0);
  }
}

TEST(ArenaTest, PackingAgainFindsTheSameArena) {
  const auto p = three_parameters();
  const ParameterArena first(p);
  const ParameterArena second(p);
  EXPECT_EQ(first.values().raw_data(), second.values().raw_data());
  EXPECT_EQ(first.gradients().raw_data(), second.gradients().raw_data());
  EXPECT_EQ(second.values().numel(), first.values().numel());
}

// Two optimizers of one wrapped model: none takes the other's memory away.
TEST(ArenaTest, PartOfAnArenaStaysWhereItIs) {
  const auto p = three_parameters();
  const ParameterArena whole(p);
  const ParameterArena front({p[0], p[1]}), back({p[2]});
  EXPECT_EQ(front.values().raw_data(), whole.values().raw_data());
  EXPECT_EQ(front.gradients().raw_data(), whole.gradients().raw_data());
  EXPECT_EQ(front.values().numel() + back.values().numel(), whole.values().numel());
  EXPECT_EQ(back.values().device_data<float>(),
            whole.values().device_data<float>() + whole.slices()[2].offset);
  EXPECT_EQ(back.slices()[0].offset, 0);
  sum(p[2] * 5).backward();
  EXPECT_EQ(gradient_at(back, 7), 5);
  EXPECT_EQ(gradient_at(whole, whole.slices()[2].offset + 7), 5);
  back.clear_gradients();
  EXPECT_FALSE(whole.has_gradient(2));
  for (const ParameterArena* arena : {&whole, &front, &back}) arena->settle();
  EXPECT_EQ(gradient_at(whole, whole.slices()[2].offset + 7), 0);
  // Not neighbours: two pieces, which one arena cannot be.
  EXPECT_EQ(make_arenas({p[2], p[0]}).size(), 2u);
  EXPECT_THROW((ParameterArena{{p[2], p[0]}}), ValueError);
}

TEST(ArenaTest, ViewsAndAliasesSeeLaterValues) {
  const Tensor w = tensor({{1., 2.}, {3., 4.}}).set_requires_grad(),
               b = ones({2}).set_requires_grad();
  const Tensor alias = w.detach(), row = view::slice(w.detach(), 0, 1, 2);
  const auto arenas = make_arenas({w, b});
  ASSERT_EQ(arenas.size(), 2u);
  EXPECT_EQ(w.raw_data(), alias.raw_data());
  sum(w * 2).backward();
  EXPECT_EQ(gradient_at(arenas[0], 3), 2);
  const std::uint32_t version = alias.version();
  fill_(arenas[0].values(), 7);
  arenas[0].parameters()[0].storage()->mark_changed(Where::current());
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{7, 7}));
  EXPECT_NE(alias.version(), version);
  // A second one finds the same values and gradients.
  const ParameterArena again({w});
  EXPECT_EQ(again.values().raw_data(), alias.raw_data());
  EXPECT_EQ(again.gradients().raw_data(), arenas[0].gradients().raw_data());
  // Also once the view is gone: another rank may still have one.
  {
    const Tensor late = ones({3}).set_requires_grad();
    Tensor view = late.detach();
    const float* const place = late.device_data<float>();
    make_arenas({late});
    view = Tensor();
    make_arenas({b, late});
    EXPECT_EQ(late.device_data<float>(), place);
  }
  // Views of a parameter that was packed see later values as well.
  const Tensor packed = b.detach();
  fill_(arenas[1].values(), 5);
  EXPECT_EQ(packed.to_vector<float>(), (std::vector<float>{5, 5}));
  make_arenas({b, w});
  EXPECT_EQ(packed.raw_data(), b.raw_data());
}

TEST(ArenaTest, PartsOfALargerTensorStayInIt) {
  const Tensor all = arange(12.), transposed = reshape(arange(6.), {2, 3});
  const Tensor first = view::slice(all, 0, 1, 5).set_requires_grad(),
               second = view::slice(all, 0, 5, 12).set_requires_grad();
  for (const ParameterArena& arena : make_arenas({first, second})) {
    fill_(arena.values(), -1);
    EXPECT_EQ(arena.values().numel(), arena.parameters()[0].numel());
  }
  EXPECT_EQ(all.to_vector<float>(),
            (std::vector<float>{0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  const Tensor column = view::slice(transposed, 1, 1, 2).set_requires_grad();
  ringrad::testing::expect_throws<ValueError>(
      [&] {
        make_arenas({ones({2}).set_requires_grad(), column});
      },
      "parameter 1 must be dense, as others see it and it must stay where it is; got shape (2, 1)");
}

// As a tensor that another library has made.
TEST(ArenaTest, MemoryOfOthersIsChangedInPlace) {
  std::vector<float> theirs{1, 2, 3};
  const Tensor w =
      from_memory(theirs.data(), {3}, {.device = Device()}, nullptr).set_requires_grad();
  const Tensor other = ones({3}, {.device = Device()}).set_requires_grad();
  const auto arenas = make_arenas({w, other});
  ASSERT_EQ(arenas.size(), 2u);
  fill_(arenas[0].values(), 4);
  EXPECT_EQ(theirs, (std::vector<float>{4, 4, 4}));
}

// A gradient in the caller's memory is dropped and not written to, before and after packing.
TEST(ArenaTest, GradientsInMemoryOfOthersStayTheirs) {
  std::vector<float> theirs{1, 2, 3};
  const auto given = [&] { return from_memory(theirs.data(), {3}, {.device = Device()}, nullptr); };
  const Tensor w = ones({3}, {.device = Device()}).set_requires_grad();
  w.set_grad(given());
  clear_gradient(w);
  EXPECT_FALSE(w.grad().defined());
  w.set_grad(given());
  const ParameterArena arena({w});
  EXPECT_EQ(arena.gradients().to_vector<float>()[2], 3);
  EXPECT_NE(arena.gradients().raw_data(), reinterpret_cast<std::byte*>(theirs.data()));
  sum(w * 4).backward();
  w.set_grad(given());
  const auto again = make_arenas({w});
  again[0].clear_gradients();
  sum(w * 5).backward();
  arena.settle();
  EXPECT_EQ(arena.gradients().to_vector<float>()[2], 5);
  w.set_grad(given());
  clear_gradient(w);
  EXPECT_EQ(theirs, (std::vector<float>{1, 2, 3}));
}

TEST(ArenaTest, AGradientThatWasDroppedLiesElsewhereForTheSecondArena) {
  const auto p = three_parameters();
  const ParameterArena first(p);
  p[1].set_grad({});
  const auto second = make_arenas({p[0], p[1]});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[1].values().raw_data(), p[1].raw_data());
  for (const int pass : {1, 2}) {
    for (const ParameterArena& arena : second) arena.clear_gradients();
    sum(p[1] * pass).backward();
    first.settle();  // as a data-parallel wrapper does
    EXPECT_EQ(gradient_at(first, first.slices()[1].offset), pass);
    for (const ParameterArena& arena : second) arena.settle();
    EXPECT_EQ(gradient_at(second[1], 0), pass);
    EXPECT_TRUE(first.has_gradient(1));
  }
  // Cleared, though the memory still holds numbers: no gradient, and zeros, for both.
  second[1].clear_gradients();
  first.settle();
  EXPECT_EQ(gradient_at(first, first.slices()[1].offset), 0);
  EXPECT_FALSE(first.has_gradient(1));
  second[1].settle();
  EXPECT_EQ(gradient_at(second[1], 0), 0);
  EXPECT_FALSE(second[1].has_gradient(0));
}

TEST(ArenaTest, ParametersWithoutElementsStayInTheirArena) {
  const std::vector<Tensor> p{ones({0, 3}).set_requires_grad(), ones({2}).set_requires_grad(),
                              ones({0}).set_requires_grad()};
  const ParameterArena whole(p);
  make_arenas({p[1], p[0], p[2]});
  make_arenas({p[2]});
  whole.settle();
  EXPECT_EQ(make_arenas(p).size(), 1u);
}

TEST(ArenaTest, GradientsThatExistMoveIn) {
  const auto p = three_parameters();
  sum(p[0] * 5).backward();
  const ParameterArena arena(p);
  EXPECT_EQ(p[0].grad().to_vector<float>(), (std::vector<float>{5, 5, 5}));
  EXPECT_EQ(p[1].grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(ArenaTest, BackwardAccumulatesIntoTheArena) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  sum(p[1] * 2).backward();
  sum(p[1] * 3).backward();
  EXPECT_EQ(p[1].grad().to_vector<float>(), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(gradient_at(arena, arena.slices()[1].offset), 5);
}

TEST(ArenaTest, ClearedGradientIsZeroWhenReadAndReplacedWhenWritten) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  sum(p[0] * 5).backward();
  sum(p[1] * 5).backward();
  arena.clear_gradients();
  sum(p[0] * 2).backward();
  EXPECT_EQ(p[0].grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(p[1].grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(ArenaTest, ClearedGradientOfAParameterUsedTwiceIsTheSumOfBothUses) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  sum(p[0] * 100).backward();
  arena.clear_gradients();
  (sum(p[0] * 2) + sum(square(p[0]))).backward();
  EXPECT_EQ(p[0].grad().to_vector<float>(), (std::vector<float>{4, 6, 8}));
}

TEST(ArenaTest, SettleWritesTheZeros) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  sum(p[2] * 5).backward();
  arena.clear_gradients();
  arena.settle();
  for (const float value : arena.gradients().to_vector<float>()) EXPECT_EQ(value, 0);
}

TEST(ArenaTest, SlicesHaveVersionsOfTheirOwn) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  const std::uint32_t version = p[1].version();
  fill_(p[0].detach(), 3);
  EXPECT_EQ(p[1].version(), version);
}

TEST(ArenaTest, MixedDtypesMakeOneArenaEach) {
  std::vector<Tensor> p = three_parameters();
  p.push_back(ones({3}, {.dtype = DType::float64}).set_requires_grad());
  const auto arenas = make_arenas(p);
  ASSERT_EQ(arenas.size(), 2u);
  EXPECT_EQ(arenas[0].parameters().size(), 3u);
  EXPECT_THROW(ParameterArena{p}, DTypeError);
}

TEST(ArenaTest, EveryDeviceHasAnArenaOfItsOwn) {
  std::vector<Device> devices{"cpu", "cpu:1"};
  if (num_cuda_devices() > 0) devices.push_back("cuda");
  std::vector<Tensor> p;
  for (const int round : {0, 1})
    for (const Device device : devices)
      p.push_back(full({3}, round, {.device = device}).set_requires_grad());
  const auto arenas = make_arenas(p);
  ASSERT_EQ(arenas.size(), devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(arenas[i].parameters().size(), 2u);
    EXPECT_EQ(arenas[i].values().device(), devices[i]);
    EXPECT_EQ(arenas[i].gradients().device(), devices[i]);
  }
  EXPECT_EQ(p.back().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_THROW(ParameterArena{p}, DeviceError);
}

TEST(ArenaTest, ArenasOfSomeOfTheParametersStayAsTheyAre) {
  const auto p = three_parameters(), q = three_parameters();
  const Tensor alone = ones({3}).set_requires_grad();
  const ParameterArena first(p), second(q);
  const auto arenas = make_arenas({q[0], q[1], q[2], alone, p[0], p[1], p[2]});
  ASSERT_EQ(arenas.size(), 3u);
  EXPECT_EQ(arenas[0].values().raw_data(), second.values().raw_data());
  EXPECT_EQ(arenas[1].values().raw_data(), first.values().raw_data());
  EXPECT_EQ(arenas[2].parameters()[0].impl(), alone.impl());
  // In another order they are still the same memory.
  const auto reordered = make_arenas({p[2], p[0], p[1]});
  ASSERT_EQ(reordered.size(), 1u);
  EXPECT_EQ(reordered[0].values().raw_data(), first.values().raw_data());
  EXPECT_EQ(reordered[0].parameters()[0].impl(), p[0].impl());
  // Part of q only stays there, too.
  EXPECT_EQ(make_arenas({q[0], q[1], p[0], p[1], p[2]}).size(), 2u);
  EXPECT_EQ(q[0].raw_data(), second.values().raw_data());
}

TEST(ArenaTest, FrozenParametersAndDroppedGradientsCountAsZero) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  sum(p[0]).backward();
  sum(p[1]).backward();
  p[0].set_requires_grad(false);
  p[1].set_grad({});
  arena.settle();
  for (const float value : arena.gradients().to_vector<float>()) EXPECT_EQ(value, 0);
  p[0].set_requires_grad();
  EXPECT_EQ(p[0].grad().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  arena.clear_gradients();
  sum(p[0]).backward();
  arena.settle();
  EXPECT_EQ(gradient_at(arena, 0), 1);
}

// As two nets do that train in turn.
TEST(ArenaTest, FrozenParametersAreCleared) {
  const auto p = three_parameters();
  const auto alone = ones({3}).set_requires_grad();
  const ParameterArena arena(p);
  for (const bool settles : {false, true}) {
    (sum(p[0]) + sum(alone)).backward();
    for (const Tensor& x : {p[0], alone}) x.set_requires_grad(false);
    arena.clear_gradients();
    clear_gradient(alone);
    if (settles) arena.settle();
    for (const Tensor& x : {p[0], alone}) x.set_requires_grad();
    EXPECT_FALSE(arena.has_gradient(0));
    EXPECT_FALSE(alone.grad().defined());
  }
  sum(p[0]).backward();
  EXPECT_EQ(gradient_at(arena, 0), 1);
}

TEST(ArenaTest, GradientsSetFromOutsideAreTakenIn) {
  const auto p = three_parameters();
  const ParameterArena arena(p);
  p[0].set_grad(tensor({7., 8., 9.}));
  arena.settle();
  EXPECT_EQ(gradient_at(arena, 1), 8);
  EXPECT_EQ(p[0].grad().device_data<float>(), arena.gradients().device_data<float>());
}

TEST(ArenaTest, AParameterThatLeftIsNoticed) {
  const auto p = three_parameters();
  const ParameterArena first(p), second({p[1]});
  p[0].set_data(zeros({3}));  // as Module::to() does
  EXPECT_THROW(first.settle(), AutogradError);
  second.settle();
}

// The weight's gradient is written directly into the arena, before the hooks run.
TEST(ArenaTest, HooksMayReadTheGradientOnItsWay) {
  for (const bool hook_of_the_weight : {true, false}) {
    const Tensor x = tensor({{1., 2.}}).set_requires_grad();
    const Tensor w = tensor({{3., 4.}}).set_requires_grad();
    const ParameterArena arena({w});
    arena.clear_gradients();
    register_hook(hook_of_the_weight ? w : x, [&](const Tensor&) {
      w.grad();
      return Tensor();
    });
    sum(linear(x, w)).backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 2}));
  }
}

}  // namespace
}  // namespace ringrad::nn
