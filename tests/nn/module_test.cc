// WithoutWhere below hides Module::forward on purpose; GCC reports that at Module::forward.
#pragma GCC diagnostic ignored "-Woverloaded-virtual"

#include "ringrad/nn/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/containers.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_throws;

struct Net : Module {
  Linear& hidden = child("hidden", Linear(3, 4));
  BatchNorm1d& norm = child("norm", BatchNorm1d(4));
  Tensor scale = parameter("scale", ones({1}));

  Tensor forward(const Tensor& x, Where at = Where::current()) override {
    return norm(hidden(x, at), at) * scale;
  }
};

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

TEST(ModuleTest, NamesJoinTheirPathWithDots) {
  const Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"scale", "hidden.weight", "hidden.bias", "norm.weight",
                                      "norm.bias"}));
  EXPECT_EQ(names(net.named_buffers()),
            (std::vector<std::string>{"norm.running_mean", "norm.running_var"}));
  EXPECT_EQ(net.num_parameters(), 1 + 12 + 4 + 4 + 4);
}

TEST(ModuleTest, ReferencesToChildrenSurviveAMove) {
  Net first;
  const Tensor weight = first.hidden.weight;
  Net second = std::move(first);
  EXPECT_TRUE(second.hidden.weight.is(weight));
  EXPECT_TRUE(second.named_parameters()[1].second.is(weight));
}

TEST(ModuleTest, HoldsNeitherItselfNorNothing) {
  struct Open : Module {
    using Module::add_child;
    Tensor forward(const Tensor& x, Where) override { return x; }
  };
  const auto outer = std::make_shared<Open>(), inner = std::make_shared<Open>();
  outer->add_child("inner", inner);
  expect_throws<ValueError>([&] { inner->add_child("outer", outer); }, "got a circle through");
  expect_throws<ValueError>([&] { inner->add_child("self", inner); }, "got a circle through");
  expect_throws<ValueError>([&] { inner->add_child("none", nullptr); }, "got null in");
}

template <class T>
struct Holder : Module {};

TEST(ModuleTest, IsDescribedByTheNameOfItsClass) {
  struct Local : Module {};
  EXPECT_EQ(Module().describe(), "Module");
  EXPECT_EQ(Net().describe(), "Net");
  EXPECT_EQ(Local().describe(), "Local");
  struct : Module {
  } unnamed;
  EXPECT_EQ(unnamed.describe(), "Module");
  EXPECT_EQ((Holder<std::pair<Net, int>>().describe()), "Holder");
  EXPECT_EQ(ModuleList<Linear>().describe(), "ModuleList");
}

TEST(ModuleTest, TrainAndEvalReachAllChildren) {
  Net net;
  net.eval();
  EXPECT_FALSE(net.norm.is_training());
  const Tensor before = clone(net.norm.running_mean);
  net(ones({2, 3}));
  EXPECT_EQ(net.norm.running_mean.to_vector<float>(), before.to_vector<float>());
  net.train();
  net(ones({2, 3}));
  EXPECT_NE(net.norm.running_mean.to_vector<float>(), before.to_vector<float>());
}

TEST(ModuleTest, StateDictRoundTripMakesModulesEqual) {
  Net source, target;
  source(ringrad::testing::Random(1).tensor({5, 3}));
  target.load_state_dict(source.state_dict());
  source.eval();
  target.eval();
  const Tensor x = ringrad::testing::Random(2).tensor({4, 3});
  ringrad::testing::expect_same_bits(source(x), target(x));
  fill_(source.hidden.weight.detach(), 0);
  EXPECT_NE(target.hidden.weight.to_vector<float>()[0], 0) << "values must be copied, not shared";
}

TEST(ModuleTest, LoadStateDictNamesWhatDoesNotFit) {
  Net net;
  StateDict state = net.state_dict();
  state.erase("scale");
  state["extra"] = ones({1});
  expect_throws<ValueError>([&] { net.load_state_dict(state); },
                            "missing: \"scale\"; unexpected: \"extra\"");
  state = net.state_dict();
  state["scale"] = ones({2});
  expect_throws<ShapeError>([&] { net.load_state_dict(state); }, "scale");
  state["scale"] = ones({1}, {.dtype = DType::float64});
  expect_throws<DTypeError>([&] { net.load_state_dict(state); }, "scale");
  state["scale"] = Tensor();
  expect_throws<ValueError>([&] { net.load_state_dict(state); }, "got an undefined \"scale\"");
}

TEST(ModuleTest, LoadStateDictMayExchangeOwnTensors) {
  nn::Linear net(1, 1);
  const auto values = [&] { return std::pair(net.weight.item(), net.bias.item()); };
  const auto [weight, bias] = values();
  net.load_state_dict({{"weight", reshape(net.bias, {1, 1})}, {"bias", reshape(net.weight, {1})}});
  EXPECT_EQ(values(), std::pair(bias, weight));
}

TEST(ModuleTest, MovesToAnotherDeviceAndStaysTrainable) {
  Net net;
  net.to(Device("cpu:1"));
  const Tensor x = ones({2, 3}, {.device = "cpu:1"});
  sum(net(x)).backward();
  EXPECT_EQ(net.scale.grad().device(), Device("cpu:1"));
  EXPECT_THROW(net(ones({2, 3})), DeviceError);
}

TEST(ModuleTest, CastsToDoubleAndStaysTrainable) {
  Net net;
  net.to(DType::float64);
  const Tensor y = net(ones({2, 3}, {.dtype = DType::float64}));
  EXPECT_EQ(y.dtype(), DType::float64);
  sum(y).backward();
  EXPECT_EQ(net.hidden.weight.grad().dtype(), DType::float64);
  EXPECT_THROW(net.to(DType::int64), DTypeError);
  // Also what is frozen meanwhile.
  net.hidden.weight.set_requires_grad(false);
  net.to(DType::float32);
  net.hidden.weight.set_requires_grad();
  sum(net(ones({2, 3}))).backward();
  EXPECT_EQ(net.hidden.weight.grad().dtype(), DType::float32);
}

TEST(ModuleTest, NamesArePathsThatNoOtherNameMayEnter) {
  struct Two : Module {
    Two(const std::string& first, const std::string& second) {
      parameter(first, ones({1}));
      child(second, Linear(1, 1));
    }
  };
  EXPECT_EQ(names(Two("a.b", "a.c").named_parameters()),
            (std::vector<std::string>{"a.b", "a.c.weight", "a.c.bias"}));
  EXPECT_NO_THROW(Two("a", "ab"));
  for (const auto& [first, second] : {std::pair("a", "a"),
                                      {"a", "a.b"},
                                      {"a.b", "a"},
                                      {"a", ""},
                                      {"a", ".b"},
                                      {"a", "b."},
                                      {"a", "b..c"}})
    expect_throws<ValueError>([&] { Two(first, second); }, concat("got \"", second, "\" in Two"));
}

TEST(ModuleTest, PyTorchsCountsOfBatchesAreIgnored) {
  Net net;
  StateDict state = net.state_dict();
  state["norm.num_batches_tracked"] = scalar_tensor(3, {.dtype = DType::int64});
  EXPECT_NO_THROW(net.load_state_dict(state));
  state["num_batches_tracked_not"] = ones({1});
  expect_throws<ValueError>([&] { net.load_state_dict(state); }, "num_batches_tracked_not");
}

TEST(ModuleTest, ABufferCalledNumBatchesTrackedIsLoaded) {
  struct Counting : Module {
    Counting() { buffer("num_batches_tracked", zeros({1})); }
  };
  const Counting saved;
  Counting loaded;
  copy_(saved.state_dict().at("num_batches_tracked"), ones({1}));
  loaded.load_state_dict(saved.state_dict());
  EXPECT_EQ(loaded.state_dict().at("num_batches_tracked").item(), 1);
}

TEST(ModuleTest, ZeroGradClearsEveryParameter) {
  Net net;
  sum(square(net(ringrad::testing::Random(3).tensor({4, 3})))).backward();
  net.zero_grad();
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(ModuleTest, PrintsItsTree) {
  std::ostringstream out;
  out << Sequential(Linear(784, 128), ReLU(), Linear(128, 10));
  EXPECT_EQ(out.str(),
            "Sequential\n"
            "  0: Linear(784, 128)\n"
            "  1: ReLU()\n"
            "  2: Linear(128, 10)");
}

// One tensor under two names, like an embedding that is also the output layer.
TEST(ModuleTest, ASharedParameterIsOneParameterWithTwoNames) {
  struct Tied : nn::Module {
    nn::Linear& in = child("in", nn::Linear(4, 4));
    Tensor out = parameter("out", in.weight);
  } net;
  ASSERT_EQ(net.named_parameters().size(), 2u);
  EXPECT_EQ(net.named_parameters().front().first, "out");
  EXPECT_EQ(net.num_parameters(), 4 * 4 + 4);
  EXPECT_EQ(net.state_dict().size(), 3u);
  EXPECT_EQ(net.state_dict().at("in.weight").impl(), net.state_dict().at("out").impl());
}

TEST(ModuleTest, ThrowsForALayerThatIsNotRegistered) {
  struct Unregistered : Module {
    Linear first{3, 3};
    Linear& second = child("second", Linear(3, 2));
    Tensor forward(const Tensor& x, Where) override { return second(first(x)); }
  } net;
  expect_throws<ValueError>(
      [&] {
        net(ones({1, 3}));
      },
      "forward: a module must register the layers that it trains; got "
      "Linear(3, 3) in Unregistered, which does not list its weight; declare "
      "the member as a reference, as in nn::Linear& fc = child(\"fc\", nn::Linear(2, 2)); in "
      "Python as self.fc = nn.Linear(2, 2), or in an nn.ModuleList");
  EXPECT_EQ(net.second(ones({1, 3})).shape(), (Shape{1, 2}));  // the failed call has ended
  net.first.eval();  // what is not trained need not be registered
  EXPECT_NO_THROW(net(ones({1, 3})));
  net.first.train();
  const NoGradGuard guard;
  EXPECT_NO_THROW(net(ones({1, 3})));
}

// The parameters count, not the module: a layer may be shared, or register its parameters
// elsewhere.
TEST(ModuleTest, CallsLayersWhoseParametersAreRegisteredElsewhere) {
  struct Sharing : Module {
    explicit Sharing(Linear& layer) : layer(layer) {
      parameter("weight", layer.weight);
      parameter("bias", layer.bias);
    }
    Tensor forward(const Tensor& x, Where) override { return layer(x); }
    Linear& layer;
  };
  Linear layer(3, 2);
  Sharing net(layer);
  EXPECT_NO_THROW(net(ones({1, 3})));
  for (const Tensor& parameter : layer.parameters()) parameter.set_requires_grad(false);
  struct Frozen : Module {
    explicit Frozen(Linear& layer) : layer(layer) {}
    Tensor forward(const Tensor& x, Where) override { return layer(x); }
    Linear& layer;
  } frozen(layer);
  EXPECT_NO_THROW(frozen(ones({1, 3})));
}

struct WithoutWhere : Module {
  Tensor forward(const Tensor& x) { return x; }
};

TEST(ModuleTest, ForwardWithoutWhereIsNoLayer) {
  static_assert(kForwardLacksWhere<WithoutWhere>);  // so child() and Sequential refuse it
  static_assert(!kForwardLacksWhere<Net> && !kForwardLacksWhere<Linear>);
  static_assert(!kForwardLacksWhere<Module>);
  WithoutWhere module;
  expect_throws<ValueError>([&] { module(ones({1})); },
                            "modules that take one override forward(const Tensor&, Where)");
}

TEST(SequentialTest, ThrowsAfterItWasMovedFrom) {
  Sequential net(Linear(3, 2));
  Sequential other = std::move(net);
  const char* const kMoved = "forward: a module must not be called after it was moved from";
  expect_throws<ValueError>([&] { net(ones({1, 3})); }, kMoved);
  expect_throws<ValueError>([&] { net.forward(ones({1, 3})); }, kMoved);
  EXPECT_EQ(other(ones({1, 3})).shape(), (Shape{1, 2}));
  net = std::move(other);
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 2}));
  expect_throws<ValueError>([&] { other(ones({1, 3})); }, kMoved);
  EXPECT_EQ(Sequential()(ones({2})).shape(), (Shape{2}));  // one without layers is the identity
}

TEST(SequentialTest, NamesTheLayerThatThrows) {
  Sequential net(Linear(3, 4), ReLU(), Sequential(Linear(4, 4), Linear(5, 2)));
  const std::uint_least32_t line = Where::current().line() + 2;
  try {
    net(ones({1, 3}));
    FAIL() << "nothing thrown";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.where().line(), line);
    const std::string message(error.message());
    EXPECT_TRUE(message.ends_with("; in layer 1 Linear(5, 2); in layer 2 Sequential")) << message;
  }
}

// What the message of a wrong shape says about its place.
std::string contexts_of(Module& net) {
  try {
    net(ones({1, 5}));
  } catch (const ShapeError& error) {
    const std::string message(error.message());
    return message.substr(std::min(message.find(';', message.find("got")), message.size()));
  }
  return "nothing thrown";
}

TEST(ModuleTest, NamesTheLayerThatThrows) {
  struct Outer : Module {
    Net& inner = child("inner", Net());
    Tensor forward(const Tensor& x, Where) override { return inner(x); }
  } net;
  const auto same = [](Module&, const Tensor& x) { return x; };
  net.inner.add_forward_pre_hook(same);
  EXPECT_EQ(contexts_of(net), "; in layer hidden Linear(3, 4); in layer inner Net");
  Sequential layers(ReLU(), Linear(3, 4));
  EXPECT_EQ(contexts_of(layers), "; in layer 1 Linear(3, 4)");
  layers.layer(1).add_forward_pre_hook(same);
  EXPECT_EQ(contexts_of(layers), "; in layer 1 Linear(3, 4)");
}

TEST(SequentialTest, StagesTogetherAreTheWhole) {
  const auto make = [] {
    manual_seed(1);
    return Sequential(Linear(3, 4), ReLU(), BatchNorm1d(4), Linear(4, 2), ReLU());
  };
  Sequential whole = make();
  // This holds between a layer and the ReLU that is folded into it as well.
  for (const std::vector<std::size_t>& starts :
       {std::vector<std::size_t>{0}, {0, 1}, {0, 2, 3}, {0, 1, 2, 3, 4}}) {
    std::vector<Sequential> stages = Sequential::split(make(), starts);
    ASSERT_EQ(stages.size(), starts.size());
    const Tensor x = ones({2, 3});
    Tensor y = x;
    StateDict state;
    for (Sequential& stage : stages) {
      y = stage(y);
      state.merge(stage.state_dict());
    }
    testing::expect_same_bits(y, whole(x));
    EXPECT_EQ(state.size(), whole.state_dict().size());
    whole.load_state_dict(state);  // equal names
  }
}

TEST(SequentialTest, StagesMustStartAtGrowingLayers) {
  const auto split = [](const std::vector<std::size_t>& starts) {
    Sequential::split(Sequential(Linear(3, 4), ReLU(), Linear(4, 2)), starts);
  };
  expect_throws<ValueError>([&] { split({}); }, "there must be a stage");
  expect_throws<ValueError>([&] { split({1}); }, "got stage 0 of 1 at layer 1");
  expect_throws<ValueError>([&] { split({0, 2, 2}); }, "got stage 2 of 3 at layer 2");
  expect_throws<ValueError>(
      [&] {
        split({0, 3});
      },
      "growing ones below 3; got stage 1 of 2 at layer 3");
}

// Enough children to move the array that the visit reads.
TEST(ModuleTest, AVisitMayRegisterChildrenAndReachesThem) {
  struct Growing : Module {
    Linear& first = child("first", Linear(1, 1));
    Linear& second = child("second", Linear(1, 1));
    void grow(int i) { child(concat("a child that was added later, number ", i), Linear(1, 1)); }
  };
  Growing net;
  std::vector<std::string> paths;
  net.visit([&](const std::string& path, Module&) {
    if (path == "first")
      for (int i = 0; i < 8; ++i) net.grow(i);
    paths.push_back(path);
  });
  ASSERT_EQ(paths.size(), 1u + 2 + 8);
  EXPECT_EQ(paths[1], "first");
  EXPECT_EQ(paths[2], "second");
  EXPECT_EQ(paths[10], "a child that was added later, number 7");
}

}  // namespace
}  // namespace ringrad::nn
