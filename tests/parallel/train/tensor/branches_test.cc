// Branches compute the bits of the same modules one after another, in every mode.

#include "ringrad/parallel/train/tensor/branches.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/parallel/train/tensor/plain_branches.h"
#include "ringrad/tests/parallel/train/told_module.h"

namespace ringrad {
namespace {

using namespace testing;  // expect_..., kModes

// Three steps. In each, two backward passes accumulate, one of them from an x that is also used
// before and after.
template <class Net>
std::vector<Tensor> train(Net& net, const std::function<Tensor(std::int64_t step)>& batch) {
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  std::vector<Tensor> seen;
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor x = batch(step).set_requires_grad();
    const Tensor leaf_y = net(x);
    sum(square(leaf_y)).backward();
    const Tensor inner = x * 2, before = tanh(inner);
    const Tensor y = net(inner);
    (mean(square(y)) + sum(before) + sum(inner * 3)).backward();
    seen.insert(seen.end(), {leaf_y.detach(), y.detach(), x.grad()});
    if (step < 2) optimizer.step();
  }
  return seen;
}

void expect_plain_bits(Join join, const MakeBranches& make,
                       const std::function<Tensor(std::int64_t)>& batch, int num_branches) {
  for (const Mode mode : kModes) {
    SCOPED_TRACE(concat("mode ", static_cast<int>(mode)));
    Branches net = make_branches(join, make, mode);
    Plain plain = make_plain(join, make);
    std::vector<Tensor> actual, expected;
    {
      // Automatic passes may go either way, so both have the same team here.
      const Team team(mode == Mode::side_by_side ? num_branches : 1);
      actual = train(net, batch);
    }
    {
      const Team team(1);  // which each branch had
      expected = train(plain, batch);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) expect_same_bits(actual[i], expected[i]);
    expect_same_state(net, plain);
  }
}

TEST(BranchesTest, AResidualBlockHasTheBitsOfThePlainOne) {
  expect_plain_bits(
      Join::sum, residual, [](std::int64_t step) { return images(2 + step % 2); }, 2);
}

TEST(BranchesTest, AnInceptionBlockHasTheBitsOfThePlainOne) {
  expect_plain_bits(
      Join::concatenate, inception, [](std::int64_t) { return images(2); }, 4);
}

TEST(BranchesTest, ABranchMayBeTheIdentity) {
  expect_plain_bits(
      Join::sum, with_identity, [](std::int64_t) { return rows(5); }, 2);
}

// More branches than threads: a team of 3 for four branches is three threads of one each.
TEST(BranchesTest, BranchesMayBeMoreThanThreads) {
  Branches net = make_branches(Join::concatenate, inception);
  Plain plain = make_plain(Join::concatenate, inception);
  {
    const Team team(3);
    sum(square(net(images(3)))).backward();
  }
  const Team team(1);
  sum(square(plain(images(3)))).backward();
  expect_same_state(net, plain);
}

// On larger images oneDNN adds gradients of weights in an order that depends on the team.
TEST(BranchesTest, SideBySideABranchHasTheBitsOfItsShareOfTheTeam) {
  for (const int threads : {2, 4, 5}) {
    SCOPED_TRACE(threads);
    Branches net = make_branches(Join::sum, residual);
    Plain plain = make_plain(Join::sum, residual);
    {
      const Team team(threads);
      sum(square(net(images(16)))).backward();
    }
    const Team team(threads / 2);
    sum(square(plain(images(16)))).backward();
    expect_same_state(net, plain);
  }
}

TEST(BranchesTest, GradientsOfXAreAddedFromTheLastBranchToTheFirst) {
  // (1e8 - 1e8) + 1 is 1 in float32, and any other order gives 0.
  const Team team(3);
  for (const Mode mode : kModes) {
    const auto times = [](double factor) {
      return Told([=](const Tensor& x, const Tensor&, int) { return x * factor; });
    };
    Branches net(Join::sum, times(1), times(-1e8), times(1e8));
    net.set_mode(mode);
    const Tensor x = rows(3).set_requires_grad();
    sum(net(x)).backward();
    expect_same_bits(x.grad(), ones({3, 6}));
  }
}

TEST(BranchesTest, OnTheCpuBranchesRunAtTheSameTime) {
  if (default_device().is_cuda()) GTEST_SKIP() << "one thread queues all";
  const Team team(2);
  std::latch both(2);
  std::atomic<int> num_met = 0;
  const auto meet = [&](const Tensor& x, const Tensor& weight, int) {
    both.count_down();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!both.try_wait() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    num_met += both.try_wait();
    return x * weight;
  };
  Branches net(Join::sum, Told(meet), Told(meet));
  net.set_mode(Mode::side_by_side);
  net(rows(2));
  EXPECT_EQ(num_met, 2);
}

TEST(BranchesTest, OnAGpuBranchesSayThatTheyShareIt) {
  if (default_device().is_cpu()) GTEST_SKIP() << "about GPUs";
  for (const Mode mode : {Mode::side_by_side, Mode::in_turn}) {
    const auto look = [mode](const Tensor& x, const Tensor& weight, int) {
      EXPECT_EQ(is_shared(x.device()), mode == Mode::side_by_side);
      return x * weight;
    };
    Branches net(Join::sum, Told(look), Told(look));
    net.set_mode(mode);
    net(rows(2));
    EXPECT_FALSE(is_shared(default_device()));
  }
}

TEST(BranchesTest, BlocksOfOneThreadShareTheirThreads) {
  if (default_device().is_cuda()) GTEST_SKIP() << "one thread queues all";
  const Team team(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  const auto note = [&](const Tensor& x, const Tensor& weight, int) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
    EXPECT_EQ(omp_get_max_threads(), 1);
    return x * weight;
  };
  for (int block = 0; block < 5; ++block) {
    Branches net(Join::sum, Told(note), Told(note));
    net.set_mode(Mode::side_by_side);
    net(rows(2));
  }
  EXPECT_LE(ids.size(), 2u);
  EXPECT_FALSE(ids.contains(std::this_thread::get_id()));
}

// A rank with one thread has none to share, and would take another rank's.
TEST(BranchesTest, WithATeamOfOneBranchesRunInTurnOnTheCallersThread) {
  if (default_device().is_cuda()) GTEST_SKIP() << "about CPU threads";
  const Team team(1);
  const auto here = std::this_thread::get_id();
  const auto check = [&](const Tensor& x, const Tensor& weight, int) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    return x * weight;
  };
  Branches net(Join::sum, Told(check), Told(check));
  net.set_mode(Mode::side_by_side);
  sum(net(rows(2))).backward();
}

TEST(BranchesTest, RandomNumbersDifferBetweenBranchesAndNotBetweenModes) {
  const Team team(2);
  const auto draw = [](Mode mode) {
    const auto noise = [](const Tensor& x, const Tensor&, int) { return rand(x.shape()); };
    Branches net(Join::concatenate, Told(noise), Told(noise));
    net.set_mode(mode);
    manual_seed(3);
    const std::vector<Tensor> both = net.outputs(rows(2));
    return std::vector{both[0], both[1], rand({4})};
  };
  const std::vector<Tensor> in_turn = draw(Mode::in_turn), side_by_side = draw(Mode::side_by_side);
  for (std::size_t i = 0; i < 3; ++i) expect_same_bits(side_by_side[i], in_turn[i]);
  EXPECT_NE(in_turn[0].to_vector<float>(), in_turn[1].to_vector<float>());
  manual_seed(3);
  expect_same_bits(in_turn[0], rand({2, 6}));  // branch 0 draws as the caller would
  expect_same_bits(in_turn[2], rand({4}));     // whose draws continue after those of the branches
}

TEST(BranchesTest, NoGradAutocastAndDefaultDeviceHoldInBranches) {
  const Team team(2);
  std::atomic<int> num_checked = 0;
  const auto check = [&](const Tensor& x, const Tensor& weight, int) {
    const Tensor y = x * weight;
    num_checked += !grad_enabled() && autocast_dtype() == DType::bfloat16 && !y.requires_grad() &&
                   default_device() == x.device();
    return y;
  };
  for (const Mode mode : kModes) {
    num_checked = 0;
    Branches net(Join::sum, Told(check), Told(check));
    net.set_mode(mode);
    const NoGradGuard guard;
    const Autocast mixed(DType::bfloat16);
    EXPECT_FALSE(net(rows(2)).requires_grad());
    EXPECT_EQ(num_checked, 2);
  }
}

TEST(BranchesTest, TrainingAndEvaluationReachBranches) {
  const Team team(2);
  Branches net = make_branches(Join::sum, residual);
  Plain plain = make_plain(Join::sum, residual);
  net(images(4));
  {
    const Team one(1);
    plain(images(4));
  }
  net.eval();
  plain.eval();
  expect_same_bits(net(images(2)).detach(), plain(images(2)).detach());
  expect_same_state(net, plain);
}

// Hooks run on the caller's tape: a DistributedDataParallel communicates from them.
TEST(BranchesTest, CompletedHooksRunOnceOnTheThreadThatCalledBackward) {
  const Team team(2);
  const auto scale = [](const Tensor& x, const Tensor& weight, int) { return x * weight * weight; };
  Branches net(Join::sum, Told(scale), Told(scale));
  net.set_mode(Mode::side_by_side);
  int num_calls = 0;
  const auto here = std::this_thread::get_id();
  for (const Tensor& weight : net.parameters()) {
    register_completed_hook(weight, [&](const Tensor& grad) {
      ++num_calls;
      EXPECT_EQ(std::this_thread::get_id(), here);
      expect_same_bits(grad, full({6}, 10));
    });
    register_hook(weight, [](const Tensor& grad) { return grad * 2.5; });
  }
  sum(net(ones({2, 6}))).backward();
  EXPECT_EQ(num_calls, 2);
}

TEST(BranchesTest, FrozenAndUnusedParametersGetNoGradient) {
  const Team team(2);
  const auto scale = [](const Tensor& x, const Tensor& weight, int) { return x * weight; };
  const auto pass = [](const Tensor& x, const Tensor&, int) { return x * 2; };
  Branches net(Join::sum, Told(scale), Told(pass), Told(scale));
  const std::vector<Tensor> weights = net.parameters();
  weights[2].set_requires_grad(false);
  for (const Mode mode : kModes) {
    net.set_mode(mode);
    net.zero_grad();
    const Tensor x = ones({2, 6}).set_requires_grad();
    sum(net(x)).backward();
    expect_same_bits(weights[0].grad(), full({6}, 2));
    EXPECT_FALSE(weights[1].grad().defined());
    EXPECT_FALSE(weights[2].grad().defined());
    expect_same_bits(x.grad(), full({2, 6}, 4));
    weights[0].set_grad({});
  }
}

TEST(BranchesTest, AParameterMayBeFrozenBeforeBackward) {
  const auto scale = [](const Tensor& x, const Tensor& weight, int) { return x * weight; };
  Branches net(Join::sum, Told(scale), Told(scale));
  const std::vector<Tensor> weights = net.parameters();
  for (const Mode mode : kModes) {
    net.set_mode(mode);
    const Tensor loss = sum(net(ones({2, 6})));
    weights[0].set_requires_grad(false);
    loss.backward();
    expect_same_bits(weights[1].grad(), full({6}, 2));
    weights[0].set_requires_grad();
    expect_same_bits(weights[0].grad(), full({6}, 2));  // as without branches
    net.zero_grad();
  }
}

TEST(BranchesTest, OutputsMayBeJoinedInAnotherWay) {
  const Team team(2);
  Branches net = make_branches(Join::sum, with_identity);
  const Tensor x = rows(3).set_requires_grad();
  const std::vector<Tensor> both = net.outputs(x);
  sum(both[0] * both[1]).backward();
  Plain plain = make_plain(Join::sum, with_identity);
  const Tensor z = rows(3).set_requires_grad();
  const Team one(1);
  sum(plain.branches[0]->forward(z) * z).backward();
  expect_same_state(net, plain);
  expect_same_bits(x.grad(), z.grad());
}

// One output is not used: its branch has no backward pass, and no gradients.
TEST(BranchesTest, ABranchThatNoGradientReachesIsLeftOut) {
  const Team team(2);
  Branches net = make_branches(Join::sum, residual);
  const Tensor x = images(2).set_requires_grad();
  sum(square(net.outputs(x)[1])).backward();
  for (const auto& [name, parameter] : net.named_parameters())
    EXPECT_EQ(parameter.grad().defined(), name.starts_with("1.")) << name;
}

}  // namespace
}  // namespace ringrad
