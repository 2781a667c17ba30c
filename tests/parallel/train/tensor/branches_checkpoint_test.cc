// Checkpointed segments in branches, and branches in checkpointed segments.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/parallel/train/tensor/branches.h"
#include "ringrad/tests/parallel/train/tensor/plain_branches.h"
#include "ringrad/tests/parallel/train/told_module.h"

namespace ringrad {
namespace {

using namespace testing;  // expect_..., kModes

TEST(BranchesCheckpointTest, CheckpointsMayBeInsideAndAround) {
  const Team team(2);
  const auto function = [](const Tensor& x, const Tensor& weight, int) {
    return activation_checkpoint(
        [weight](const std::vector<Tensor>& in) {
          return tanh(in[0] * weight) * rand(in[0].shape());
        },
        {x});
  };
  const auto gradients = [&](Mode mode, bool around) {
    Branches net(Join::sum, Told(function), Told(function));
    net.set_mode(mode);
    const Tensor x = rows(3).set_requires_grad();
    manual_seed(5);
    const auto run = [&](const std::vector<Tensor>& in) { return net(in[0]); };
    sum(square(around ? activation_checkpoint(run, {x}) : net(x))).backward();
    return std::vector{x.grad(), net.parameters()[0].grad(), net.parameters()[1].grad()};
  };
  const std::vector<Tensor> expected = gradients(Mode::in_turn, false);
  for (const Mode mode : kModes)
    for (const bool around : {false, true}) {
      const std::vector<Tensor> actual = gradients(mode, around);
      for (std::size_t i = 0; i < 3; ++i) expect_same_bits(actual[i], expected[i]);
    }
}

// Waits until the counter is positive, so that threads come in a certain order.
void wait_for(const std::atomic<int>& counter) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (counter == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

// At first branch 1 draws before branch 0, and then, when the segment runs again, after it.
TEST(BranchesCheckpointTest, GeneratorsOfBranchesDrawTheSameInACheckpoint) {
  const Team team(2);
  const auto gradients = [&](Mode mode, bool is_checkpointed) {
    std::array<Generator, 2> generators{Generator(7), Generator(7)};
    generators[1].set_offset(1000);
    std::array<int, 2> num_passes{};
    std::array<std::atomic<int>, 2> num_drawn{};
    const bool is_ordered =
        is_checkpointed && mode == Mode::side_by_side && default_device().is_cpu();
    const auto branch = [&](std::size_t k) {
      return Told([&, k](const Tensor& x, const Tensor& weight, int) {
        const auto pass = static_cast<std::size_t>(num_passes[k]++);
        if (is_ordered && (pass + k) % 2 == 0) wait_for(num_drawn[pass]);
        const Tensor noise = rand(x.shape(), {}, generators[k]);
        ++num_drawn[pass];
        return tanh(x * weight * noise) * rand(x.shape(), {}, generators[k]);
      });
    };
    Branches net(Join::sum, branch(0), branch(1));
    net.set_mode(mode);
    const Tensor x = rows(3).set_requires_grad();
    const auto run = [&](const std::vector<Tensor>& in) { return net(in[0]); };
    sum(square(is_checkpointed ? activation_checkpoint(run, {x}) : net(x))).backward();
    for (const Generator& generator : generators)
      EXPECT_EQ(generator.offset() % 1000, 2u * 5);  // 18 words each
    return std::vector{x.grad(), net.parameters()[0].grad(), net.parameters()[1].grad()};
  };
  const std::vector<Tensor> expected = gradients(Mode::in_turn, false);
  for (const Mode mode : {Mode::side_by_side, Mode::in_turn}) {
    const std::vector<Tensor> actual = gradients(mode, true);
    for (std::size_t i = 0; i < 3; ++i) expect_same_bits(actual[i], expected[i]);
  }
}

// Also what is no parameter, which only the branch's own thread sees.
TEST(BranchesCheckpointTest, ACheckpointRefusesWhatChangedInABranch) {
  const Team team(2);
  const Tensor factor = ones({6});
  const auto scale = [&](const Tensor& x, const Tensor& weight, int) {
    return x * weight * factor;
  };
  Branches net(Join::sum, Told(scale), Told(scale));
  net.set_mode(Mode::side_by_side);
  const Tensor x = rows(3).set_requires_grad();
  for (const Tensor& changed : {factor, net.parameters()[1]}) {
    const Tensor y =
        activation_checkpoint([&](const std::vector<Tensor>& in) { return net(in[0]); }, {x});
    {
      const NoGradGuard guard;
      mul_(changed, 2);
    }
    expect_throws<AutogradError>([&] { sum(y).backward(); }, "must not change before backward");
  }
}

}  // namespace
}  // namespace ringrad
