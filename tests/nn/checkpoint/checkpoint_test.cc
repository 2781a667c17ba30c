// A run that stops and resumes equals a run that never stopped, bit by bit.

#include "ringrad/nn/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/transform.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/adagrad.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/nn/optimizer/lion.h"
#include "ringrad/nn/optimizer/rmsprop.h"
#include "ringrad/nn/optimizer/schedule.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;

constexpr std::int64_t kSamples = 50;

TensorDataset images() {
  const DefaultDeviceGuard guard{Device()};
  Generator generator(3);
  return TensorDataset(
      {rand({kSamples, 2, 6, 6}, {}, generator), randint(0, 3, {kSamples}, generator)});
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

// All the state of a training program, made anew: batch norm, dropout, augmentation, a schedule, a
// scaler.
struct Training {
  explicit Training(const MakeOptimizer& make) : optimizer(make(net.parameters())) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", *optimizer);
    checkpoint.add("scaler", scaler);
    checkpoint.add("average", average);
    checkpoint.add("plateau", plateau);
    checkpoint.add("random", random);
    checkpoint.add("default_random", default_generator());
    checkpoint.add("step", step);
    checkpoint.add("epoch", position.epoch);
    checkpoint.add("consumed", position.consumed);
    checkpoint.add("average_loss", average_loss);
    checkpoint.add("noise", noise);
  }

  // Trains until `last_step`, from the current step on.
  void run(std::int64_t last_step) {
    RandomSampler sampler(kSamples, 4);
    DataLoader loader(dataset, sampler,
                      {.batch_size = 8,
                       .num_workers = 1,
                       .transforms = {random_crop({6, 6}, 1), random_horizontal_flip()}});
    loader.set_position(position);
    const Schedule schedule = one_cycle(0.1, 40);
    while (step < last_step)
      for (const Batch& batch : loader) {
        optimizer->set_learning_rate(schedule(step) * plateau.rate());
        optimizer->zero_grad();
        const Tensor input = to(batch.input(), default_device());
        normal_(noise, 0, 0.1, random);
        const Tensor loss = cross_entropy(net(input + noise), to(batch.target(), default_device()));
        scaler.scale(loss).backward();
        scaler.step(*optimizer);
        scaler.update();
        average.update();
        plateau(loss.item<double>());
        average_loss = 0.9 * average_loss + 0.1 * loss.item<double>();
        position = loader.position();
        if (++step == last_step) break;
      }
  }

  TensorDataset dataset = images();
  Sequential net{Conv2d(2, 4, {.padding = 1}),
                 BatchNorm2d(4),
                 ReLU(),
                 Flatten(),
                 Dropout(0.3),
                 Linear(144, 3)};
  std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler{{.initial_scale = 256, .growth_interval = 7}};
  ExponentialMovingAverage average{net, {.decay = 0.9}};
  Plateau plateau{1, {.factor = 0.75, .patience = 1, .cooldown = 1}};
  Generator random{99};
  SamplerPosition position;
  std::int64_t step = 0;
  double average_loss = 0;
  Tensor noise = zeros({1, 2, 6, 6});
  Checkpoint checkpoint;
};

const std::vector<MakeOptimizer>& optimizers() {
  static const std::vector<MakeOptimizer> all{
      [](const std::vector<Tensor>& p) {
        return std::make_unique<SGD>(
            p, SGDOptions{.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
      },
      [](const std::vector<Tensor>& p) { return std::make_unique<SGD>(p); },
      [](const std::vector<Tensor>& p) { return std::make_unique<Adam>(p); },
      [](const std::vector<Tensor>& p) {
        return std::make_unique<AdamW>(
            ParameterGroups{{.parameters = {p.begin(), p.begin() + 3}, .weight_decay = 0.1},
                            {.parameters = {p.begin() + 3, p.end()}, .learning_rate_scale = 2}});
      },
      [](const std::vector<Tensor>& p) {
        return std::make_unique<RMSprop>(p, RMSpropOptions{.momentum = 0.9});
      },
      [](const std::vector<Tensor>& p) {
        return std::make_unique<Adagrad>(p, AdagradOptions{.learning_rate_decay = 0.1});
      },
      [](const std::vector<Tensor>& p) { return std::make_unique<Lion>(p); }};
  return all;
}

void expect_same_state(const StateDict& actual, const StateDict& expected) {
  check_same_layout("test", actual, expected);
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    expect_same_bits(actual.at(name), tensor);
  }
}

TEST(CheckpointTest, ARunThatIsTakenUpAgainIsTheRunThatWasNotLeft) {
  const Folder folder;
  for (const MakeOptimizer& make : optimizers()) {
    manual_seed(1);
    Training straight(make);
    straight.run(20);
    const StateDict expected = straight.checkpoint.state();
    for (const std::int64_t left_at : {1, 7, 10}) {  // 7 steps are an epoch
      manual_seed(1);
      {
        Training first(make);
        first.run(left_at);
        first.checkpoint.save(folder / "run");
      }
      manual_seed(2);  // a new process has other values, and has drawn other random numbers
      Training second(make);
      second.random = Generator(5);
      ASSERT_TRUE(second.checkpoint.load(folder / "run"));
      second.run(20);
      expect_same_state(second.checkpoint.state(), expected);
    }
    EXPECT_EQ(straight.step, 20);
  }
}

// Earlier versions counted only the optimizer's steps.
TEST(CheckpointTest, RunsOfEarlierVersionsAreTakenUp) {
  const Folder folder;
  for (const MakeOptimizer& make : optimizers()) {
    manual_seed(1);
    Training straight(make);
    straight.run(7);
    StateDict state = straight.checkpoint.state();
    EXPECT_GT(
        std::erase_if(state, [](const auto& entry) { return entry.first.ends_with(".steps"); }),
        0u);
    write_tensors(folder / "run", state);
    straight.run(9);
    const StateDict expected = straight.checkpoint.state();
    Training second(make);
    ASSERT_TRUE(second.checkpoint.load(folder / "run"));
    second.run(9);
    expect_same_state(second.checkpoint.state(), expected);
  }
}

TEST(CheckpointTest, TheTestAboveWouldSeeWhatIsForgotten) {
  const auto& make = optimizers()[2];
  const Folder folder;
  manual_seed(1);
  Training straight(make);
  straight.run(10);
  straight.checkpoint.save(folder / "run");
  for (const char* const forgotten :
       {"random", "default_random", "consumed", "optimizer.step", "optimizer.0.steps",
        "optimizer.0.first_moment", "optimizer.0.second_moment", "model.1.running_mean",
        "scaler.good_steps"}) {
    SCOPED_TRACE(forgotten);
    Training whole(make), part(make);
    whole.checkpoint.load(folder / "run");
    whole.run(20);
    StateDict state = read_tensors(folder / "run");
    manual_seed(2);
    const Tensor& kept = state.at(forgotten);
    state[forgotten] = zeros(kept.shape(), {.dtype = kept.dtype(), .device = Device()});
    part.checkpoint.load_state(state);
    part.run(20);
    bool same = true;
    const StateDict actual = part.checkpoint.state();
    for (const auto& [name, tensor] : whole.checkpoint.state())
      same &= tensor.to_vector<double>() == actual.at(name).to_vector<double>();
    EXPECT_FALSE(same);
  }
}

TEST(CheckpointTest, StateOfAnOptimizerIsPerParameterInItsOrderAndShape) {
  const std::vector<Tensor> p{ones({3}).set_requires_grad(),
                              ones({2}, {.dtype = DType::float64}).set_requires_grad(),
                              ones({2, 2}).set_requires_grad()};
  Adam optimizer(p);
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.size(), 11u);
  EXPECT_EQ(state.at("1.first_moment").dtype(), DType::float64);
  EXPECT_EQ(state.at("2.second_moment").shape(), (Shape{2, 2}));
  EXPECT_EQ(SGD(p).state_dict().size(), 5u);
}

// The location of parameters does not affect their values: one arena here, and two there.
TEST(CheckpointTest, TheLayoutInMemoryDoesNotMatter) {
  const auto moments_of = [](std::vector<std::int64_t> order) {
    std::vector<Tensor> p(3);
    for (const std::int64_t i : order)
      p[static_cast<std::size_t>(i)] = full({i + 1}, i).set_requires_grad();
    return p;
  };
  const auto first = moments_of({0, 1, 2}), second = moments_of({2, 0, 1});
  SGD before(first, {.momentum = 0.5}), after(second, {.momentum = 0.5});
  for (const Tensor& x : first) x.set_grad(full(x.shape(), 3));
  before.step();
  after.load_state_dict(before.state_dict());
  for (const auto& [name, tensor] : after.state_dict())
    expect_same_bits(tensor, before.state_dict().at(name));
}

TEST(CheckpointTest, WithoutAFileNothingIsLoaded) {
  const Folder folder;
  std::int64_t step = 3;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  EXPECT_FALSE(checkpoint.load(folder / "absent"));
  EXPECT_EQ(step, 3);
}

// A link stands for the file that it names, which the first save makes.
TEST(CheckpointTest, ALinkMayBeThereBeforeItsFile) {
  const Folder folder;
  std::filesystem::create_symlink("file", folder / "link");
  std::int64_t step = 3;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  EXPECT_FALSE(checkpoint.load(folder / "link"));
  checkpoint.save(folder / "link");
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "file"));
  step = 4;
  EXPECT_TRUE(checkpoint.load(folder / "link"));
  EXPECT_EQ(step, 3);
}

TEST(CheckpointTest, WhatMayBeAFileIsNotTakenForNone) {
  const Folder folder;
  std::filesystem::create_symlink("itself", folder / "itself");
  std::int64_t step = 3;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  expect_throws<DataError>([&] { checkpoint.load(folder / "itself"); },
                           "must be a file; got Too many levels of symbolic links");
  expect_throws<DataError>([&] { checkpoint.load(folder / std::string(300, 'x')); },
                           "must be a file; got File name too long");
  std::filesystem::create_directory(folder / "folder");
  expect_throws<DataError>([&] { checkpoint.load(folder / "folder"); }, "must be a file");
}

TEST(CheckpointTest, AnotherModelsFileIsRefusedWithAllDifferences) {
  const Folder folder;
  Linear saved(3, 2), other(4, 2, /*bias=*/false);
  std::int64_t step = 5, count = 1;
  double rate = 0.5;
  Checkpoint to_save, to_load;
  to_save.add("model", saved);
  to_save.add("step", step);
  to_save.add("count", count);
  to_save.save(folder / "file");
  to_load.add("model", other);
  to_load.add("count", rate);
  to_load.add("rate", rate);
  const Tensor before = clone(other.parameters()[0].detach());
  expect_throws<ValueError>(
      [&] { to_load.load(folder / "file"); },
      "missing: \"rate\"; unexpected: \"model.bias\" \"step\"; got other shapes: "
      "\"model.weight\" (2, 3) for (2, 4); got other dtypes: \"count\" int64 for "
      "float64");
  expect_same_bits(other.parameters()[0], before);
  EXPECT_EQ(rate, 0.5);
}

TEST(CheckpointTest, ADamagedFileChangesNothing) {
  const Folder folder;
  Linear net(30, 20);
  Checkpoint checkpoint;
  checkpoint.add("model", net);
  checkpoint.save(folder / "file");
  std::filesystem::resize_file(folder / "file", 1000);
  const Tensor before = clone(net.parameters()[0].detach());
  expect_throws<DataError>([&] { checkpoint.load(folder / "file"); }, "checksum must match");
  expect_same_bits(net.parameters()[0], before);
}

TEST(CheckpointTest, ARankTakesItsOwnRandomState) {
  Generator saved(7), own(8);
  saved.set_offset(40);
  Checkpoint checkpoint;
  checkpoint.add("random", own);
  StateDict state = checkpoint.state();
  const DefaultDeviceGuard guard{Device()};
  const Tensor rows = empty({2, 2}, {.dtype = DType::int64});
  for (int i = 0; i < 4; ++i) rows.data<std::int64_t>()[i] = -1 - i;
  state["random"] = rows;
  checkpoint.load_state(state, 2);
  EXPECT_EQ(own.seed(), 8u) << "a rank that is new keeps its own";
  checkpoint.load_state(state, 1);
  EXPECT_EQ(own.seed(), ~std::uint64_t{0} - 2);
  EXPECT_EQ(own.offset(), ~std::uint64_t{0} - 3);
}

TEST(CheckpointTest, ThrowsForNamesThatAreTakenOrWouldCollide) {
  std::int64_t number = 0;
  Checkpoint checkpoint;
  checkpoint.add("a", number);
  for (const char* name : {"a", "", "a.b"})
    expect_throws<ValueError>([&] { checkpoint.add(name, number); },
                              concat("must be new and without dots; got \"", name, '"'));
}

TEST(CheckpointTest, ThrowsForNumbersThatCannotBe) {
  const std::vector<Tensor> p{ones({3}).set_requires_grad()};
  SGD optimizer(p);
  StateDict state = optimizer.state_dict();
  state["step"] = scalar_tensor(-1, {.dtype = DType::int64});
  expect_throws<ValueError>([&] { optimizer.load_state_dict(state); },
                            "must not be negative; got -1");
  GradScaler scaler;
  state = scaler.state_dict();
  state["scale"] = scalar_tensor(0, {.dtype = DType::float64});
  expect_throws<ValueError>([&] { scaler.load_state_dict(state); }, "scale must be positive");
}

TEST(CheckpointTest, NumbersThatCannotBeChangeNothing) {
  Linear net(2, 2);
  SGD optimizer(net.parameters(), {.learning_rate = 0.5, .momentum = 0.9});
  GradScaler scaler({.initial_scale = 8});
  std::int64_t step = 5;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  checkpoint.add("model", net);
  checkpoint.add("optimizer", optimizer);
  checkpoint.add("scaler", scaler);
  const auto copy = [&] {
    StateDict state;
    for (const auto& [name, tensor] : checkpoint.state()) state[name] = clone(tensor.detach());
    return state;
  };
  const StateDict before = copy();
  for (const std::string name :
       {"optimizer.step", "optimizer.0.steps", "optimizer.learning_rate", "scaler.scale"}) {
    StateDict other;
    for (const auto& [key, tensor] : before)
      other[key] = full(tensor.shape(), key == name ? -1 : 7, {.dtype = tensor.dtype()});
    expect_throws<ValueError>([&] { checkpoint.load_state(other); }, "negative");
    expect_same_state(checkpoint.state(), before);
  }
  Tensor spread = expand(ones({1}), {3});
  checkpoint.add("spread", spread);
  StateDict other = copy();
  other.at("step") = scalar_tensor(7, {.dtype = DType::int64, .device = Device()});
  expect_throws<ValueError>([&] { checkpoint.load_state(other); }, "its own; got \"spread\"");
  EXPECT_EQ(step, 5);
}

}  // namespace
}  // namespace ringrad::nn
