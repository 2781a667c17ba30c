// Branches, and their reference: the same modules one after another on the caller's tape.

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/train/tensor/branches.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

using Mode = Branches::Mode;
using Join = Branches::Join;
inline constexpr Mode kModes[] = {Mode::in_turn, Mode::side_by_side, Mode::automatic};

using MakeBranches = std::function<std::vector<nn::Sequential>()>;

/// Modules one after another.
struct Plain : nn::Module {
  Plain(Join join, std::vector<nn::Sequential> modules) : join(join) {
    for (nn::Sequential& module : modules)
      branches.push_back(&child(std::to_string(branches.size()), std::move(module)));
  }
  Tensor forward(const Tensor& x, Where at) override {
    std::vector<Tensor> ys;
    for (nn::Sequential* branch : branches) ys.push_back(branch->forward(x, at));
    if (join == Join::concatenate) return concatenate(ys, 1, at);
    Tensor sum = ys[0];
    for (std::size_t k = 1; k < ys.size(); ++k) sum = sum + ys[k];
    return sum;
  }
  Join join;
  std::vector<nn::Sequential*> branches;
};

inline Plain make_plain(Join join, const MakeBranches& make) {
  manual_seed(1);
  return Plain(join, make());
}

inline Branches make_branches(Join join, const MakeBranches& make, Mode mode = Mode::side_by_side) {
  manual_seed(1);
  Branches branches(join);
  for (nn::Sequential& module : make()) branches.append(std::move(module));
  branches.set_mode(mode);
  return branches;
}

/// A path and its shortcut, and an inception block of four, on images (B, 8, 8, 8).
inline std::vector<nn::Sequential> residual() {
  std::vector<nn::Sequential> paths;
  paths.emplace_back(nn::Conv2d(8, 8, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                     nn::Conv2d(8, 8, {.padding = 1}), nn::BatchNorm2d(8));
  paths.emplace_back(nn::Conv2d(8, 8, {.kernel = 1}), nn::BatchNorm2d(8));
  return paths;
}

inline std::vector<nn::Sequential> inception() {
  std::vector<nn::Sequential> paths;
  paths.emplace_back(nn::Conv2d(8, 3, {.kernel = 1}), nn::ReLU());
  paths.emplace_back(nn::Conv2d(8, 4, {.kernel = 1}), nn::ReLU(), nn::Conv2d(4, 5, {.padding = 1}));
  paths.emplace_back(nn::Conv2d(8, 2, {.kernel = 5, .padding = 2}), nn::ReLU());
  paths.emplace_back(nn::MaxPool2d(3, {.stride = 1, .padding = 1}),
                     nn::Conv2d(8, 3, {.kernel = 1}));
  return paths;
}

/// The identity beside a linear layer, on rows of 6.
inline std::vector<nn::Sequential> with_identity() {
  std::vector<nn::Sequential> paths;
  paths.emplace_back(nn::Linear(6, 6), nn::Tanh(), nn::Linear(6, 6));
  paths.emplace_back(nn::Identity());
  return paths;
}

inline Tensor images(std::int64_t batch, std::uint64_t seed = 7) {
  Generator generator(seed);
  return randn({batch, 8, 8, 8}, {}, generator);
}

inline Tensor rows(std::int64_t batch, std::uint64_t seed = 7) {
  Generator generator(seed);
  return randn({batch, 6}, {}, generator);
}

/// Parameters, their gradients and buffers.
inline void expect_same_state(const nn::Module& actual, const nn::Module& expected,
                              Where where = Where::current()) {
  for (std::size_t i = 0; i < expected.parameters().size(); ++i) {
    const Tensor a = actual.parameters()[i], b = expected.parameters()[i];
    expect_same_bits(a.detach(), b.detach(), where);
    ASSERT_EQ(a.grad().defined(), b.grad().defined()) << i;
    if (b.grad().defined()) expect_same_bits(a.grad(), b.grad(), where);
  }
  for (std::size_t i = 0; i < expected.named_buffers().size(); ++i)
    expect_same_bits(actual.named_buffers()[i].second, expected.named_buffers()[i].second, where);
}

}  // namespace ringrad::testing
