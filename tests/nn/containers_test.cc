// Lists and dicts of modules, and the hooks of modules.

#include "ringrad/nn/containers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;

// Calls its own overload, with an argument that Module::forward lacks.
struct Scale : Module {
  explicit Scale(double by) : by(by) {}
  Tensor forward(const Tensor& x, Where = Where::current()) override { return x * by * weight; }
  Tensor powered(const Tensor& x, int times) {
    Tensor y = x;
    for (int i = 0; i < times; ++i) y = (*this)(y);
    return y;
  }
  double by;
  Tensor weight = parameter("weight", ones({1}));
};

struct Net : Module {
  ModuleList<Scale>& blocks = child("blocks", ModuleList<Scale>());
  ModuleDict<>& heads = child("heads", ModuleDict<>());
  Net() {
    for (int i = 0; i < 3; ++i) blocks.append(Scale(2 + i));
    heads.insert("one", Scale(10));
    heads.insert("many", Linear(1, 4));
  }
  Tensor forward(const Tensor& x, Where = Where::current()) override {
    Tensor y = x;
    for (Scale& block : blocks) y = block.powered(y, 2);
    return heads.get("one")(y);
  }
};

TEST(ContainersTest, ParentsCallTheModulesAndOwnTheirParameters) {
  Net net;
  expect_close(net(tensor({1.})), {4 * 9 * 16 * 10});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"blocks.0.weight", "blocks.1.weight", "blocks.2.weight",
                                      "heads.one.weight", "heads.many.weight", "heads.many.bias"}));
  EXPECT_EQ(net.blocks[1].by, 3);
  EXPECT_EQ(net.blocks.size(), 3u);
  EXPECT_EQ(net.heads.names(), (std::vector<std::string>{"one", "many"}));
  EXPECT_TRUE(net.heads.contains("many"));
  EXPECT_FALSE(net.heads.contains("few"));
  net.eval();
  EXPECT_FALSE(net.blocks[2].is_training());
}

TEST(ContainersTest, MovingTheParentKeepsTheReferences) {
  Net net;
  Net moved(std::move(net));
  expect_close(moved(tensor({1.})), {4 * 9 * 16 * 10});
  EXPECT_EQ(moved.num_parameters(), 4 + 8);
}

TEST(ContainersTest, RefuseWhatIsNotThere) {
  Net net;
  expect_throws<IndexError>([&] { net.blocks.get(3); }, "below 3; got 3");
  expect_throws<ValueError>([&] { net.heads.get("few"); }, "got \"few\"");
  expect_throws<ValueError>([&] { net.heads.insert("one", Scale(1)); }, "taken");
  expect_throws<ValueError>([&] { net.blocks(tensor({1.})); }, "ModuleList");
}

TEST(ModuleHooksTest, SeeAndReplaceInputAndOutput) {
  Scale twice(2);
  std::vector<float> seen;
  ModuleHookHandle first = twice.add_forward_pre_hook([&](Module& module, const Tensor& x) {
    EXPECT_EQ(&module, &twice);
    seen.push_back(x.item());
    return x + 1;
  });
  twice.add_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
    seen.insert(seen.end(), {x.item(), y.item()});
    return Tensor();  // keeps y
  });
  ModuleHookHandle last =
      twice.add_forward_hook([](Module&, const Tensor&, const Tensor& y) { return y * 10; });
  EXPECT_EQ(twice(tensor({3.})).item(), 80);
  EXPECT_EQ(seen, (std::vector<float>{3, 4, 8}));
  first.remove();
  last.remove();
  last.remove();
  EXPECT_EQ(twice(tensor({3.})).item(), 6);
  EXPECT_TRUE(twice.has_hooks());
}

// A ReLU is not folded into a layer whose output a hook wants to see.
TEST(ModuleHooksTest, RunInASequentialBeforeTheReluThatFollows) {
  Sequential net(Scale(-1), ReLU(), Scale(1), ReLU());
  std::vector<float> seen;
  const auto note = [&](Module&, const Tensor&, const Tensor& y) {
    seen.push_back(y.item());
    return Tensor();
  };
  ModuleHookHandle of_scale = net.layer(0).add_forward_hook(note);
  net.layer(3).add_forward_hook(note);
  EXPECT_EQ(net(tensor({3.})).item(), 0);
  EXPECT_EQ(seen, (std::vector<float>{-3, 0}));
  of_scale.remove();
  net(tensor({3.}));
  EXPECT_EQ(seen.size(), 3u);
}

// Enough additions to move any array that the running hooks might be read from.
TEST(ModuleHooksTest, MayAddHooksWhichRunFromTheNextCallOn) {
  Scale scale(1);
  const auto plus_one = [](Module&, const Tensor& x) { return x + 1; };
  const auto times_two = [](Module&, const Tensor&, const Tensor& y) { return y * 2; };
  ModuleHookHandle adds_before = scale.add_forward_pre_hook([&](Module& module, const Tensor&) {
    for (int i = 0; i < 5; ++i) module.add_forward_pre_hook(plus_one);
    return Tensor();
  });
  ModuleHookHandle adds_after =
      scale.add_forward_hook([&](Module& module, const Tensor&, const Tensor&) {
        for (int i = 0; i < 5; ++i) module.add_forward_hook(times_two);
        return Tensor();
      });
  scale.add_forward_pre_hook(plus_one);
  scale.add_forward_hook(times_two);
  EXPECT_EQ(scale(tensor({3.})).item(), (3 + 1) * 2);
  adds_before.remove();
  adds_after.remove();
  EXPECT_EQ(scale(tensor({3.})).item(), (3 + 6) * 64);
}

TEST(ModuleHooksTest, MayRemoveThemselvesAndOthers) {
  Scale scale(1);
  std::optional<ModuleHookHandle> self, other, self_after;
  const std::string text(100, 'x');
  self = scale.add_forward_pre_hook([&, text](Module&, const Tensor& x) {
    self->remove();
    other->remove();
    return x + static_cast<double>(text.size());
  });
  other = scale.add_forward_pre_hook([](Module&, const Tensor& x) { return x + 1000; });
  scale.add_forward_pre_hook([](Module&, const Tensor& x) { return x + 1; });
  self_after = scale.add_forward_hook([&, text](Module&, const Tensor&, const Tensor& y) {
    self_after->remove();
    return y + 10 * static_cast<double>(text.size());
  });
  EXPECT_EQ(scale(tensor({3.})).item(), 3 + 100 + 1 + 1000);  // 1000 from the hook after
  EXPECT_EQ(scale(tensor({3.})).item(), 3 + 1);
}

// The functions keep their own state: no call runs a copy of them.
TEST(ModuleHooksTest, MayCallTheirModuleAndKeepState) {
  Scale scale(1);
  std::vector<int> seen;
  scale.add_forward_hook([&, calls = 0](Module& module, const Tensor&, const Tensor& y) mutable {
    seen.push_back(calls++);
    return calls == 1 ? module(y) : Tensor();
  });
  EXPECT_EQ(scale(tensor({3.})).item(), 3);
  scale(tensor({3.}));
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
}

TEST(ModuleHooksTest, MayMoveTheirModuleAway) {
  Scale scale(2);
  std::optional<Scale> moved;
  scale.add_forward_hook([&](Module&, const Tensor&, const Tensor&) {
    moved.emplace(std::move(scale));
    return Tensor();
  });
  scale.add_forward_hook([](Module&, const Tensor&, const Tensor& y) { return y + 1; });
  EXPECT_EQ(scale(tensor({3.})).item(), 7);
}

TEST(ModuleHooksTest, AHandleMayOutliveTheModuleOrItsMove) {
  ModuleHookHandle handle = [] {
    Scale scale(2);
    ModuleHookHandle added =
        scale.add_forward_hook([](Module&, const Tensor&, const Tensor& y) { return y + 1; });
    Scale moved(std::move(scale));
    EXPECT_EQ(moved(tensor({1.})).item(), 3);
    return added;
  }();
  handle.remove();
}

TEST(ContainersTest, AParentCallsItsChildsOwnTrain) {
  struct Frozen : Module {
    void train(bool) override { Module::train(false); }
  };
  struct Parent : Module {
    Frozen& frozen = child("frozen", Frozen());
    Linear& layer = child("layer", Linear(1, 1));
  };
  Parent parent;
  parent.eval();
  parent.train();
  EXPECT_FALSE(parent.frozen.is_training());
  EXPECT_TRUE(parent.layer.is_training());
}

TEST(ModuleDictTest, HoldsModulesOfOneType) {
  ModuleDict<Linear> heads;
  Linear& mean = heads.insert("mean", Linear(2, 1));
  const auto kept = std::make_shared<Linear>(2, 3);
  heads.insert("deviation", kept);
  EXPECT_EQ(&heads.get("mean"), &mean);
  EXPECT_EQ(&heads.get("deviation"), kept.get());
  ModuleList<Linear> blocks;
  EXPECT_EQ(&blocks.append(kept), kept.get());
  EXPECT_EQ(heads.named_parameters().size(), 4u);
}

}  // namespace
}  // namespace ringrad::nn
