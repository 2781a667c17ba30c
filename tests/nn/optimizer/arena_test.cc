#include "ringrad/nn/optimizer/arena.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/in_place.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/node.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"

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

TEST(ArenaTest, PartOfAnArenaIsPackedAnew) {
  const auto p = three_parameters();
  const ParameterArena whole(p);
  const ParameterArena part({p[0], p[1]});
  EXPECT_NE(whole.values().raw_data(), part.values().raw_data());
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
  // Part of q only: the rest of its arena would have no owner.
  EXPECT_EQ(make_arenas({q[0], q[1], p[0], p[1], p[2]}).size(), 2u);
  EXPECT_NE(q[0].storage()->whole(), second.values().storage());
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
  arena.clear_gradients();
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
  const ParameterArena first(p);
  const ParameterArena second({p[1]});
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
