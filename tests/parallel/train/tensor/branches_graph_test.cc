// Branches as a part of graphs and of other parallel schemes, on GPUs, and their failures.

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/nn/captured_step.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/data_parallel.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"
#include "ringrad/parallel/train/tensor/branches.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/parallel/train/tensor/plain_branches.h"
#include "ringrad/tests/parallel/train/told_module.h"

namespace ringrad {
namespace {

using namespace testing;  // expect_..., kModes

Tensor scale(const Tensor& x, const Tensor& weight, int) { return x * weight; }

TEST(BranchesGraphTest, TwoForwardPassesMayComeBeforeTheirBackwardPasses) {
  Branches net = make_branches(Join::sum, residual);
  Plain plain = make_plain(Join::sum, residual);
  const auto passes = [](auto& module) {
    const Tensor a = module(images(2, 1)), b = module(images(3, 2));
    sum(square(b)).backward();
    sum(square(a)).backward();
  };
  {
    const Team team(2);
    passes(net);
  }
  const Team team(1);
  passes(plain);
  expect_same_state(net, plain);
}

TEST(BranchesGraphTest, TheModeMayChangeBetweenForwardAndBackward) {
  const Team team(2);
  Branches net(Join::sum, Told(scale), Told(scale));
  for (const auto& [before, after] :
       {std::pair(Mode::in_turn, Mode::side_by_side), {Mode::side_by_side, Mode::in_turn}}) {
    net.zero_grad();
    net.set_mode(before);
    const Tensor y = sum(net(ones({3, 6})));
    net.set_mode(after);
    y.backward();
    expect_same_bits(net.parameters()[1].grad(), full({6}, 3));
  }
}

TEST(BranchesGraphTest, AChangeBetweenForwardAndBackwardIsNoticed) {
  const Team team(2);
  Branches net(Join::sum, Told(scale), Told(scale));
  net.set_mode(Mode::side_by_side);
  const Tensor x = rows(2).set_requires_grad(), y = net(x);
  {
    const NoGradGuard guard;
    mul_(net.parameters()[1], 2);
  }
  expect_throws<AutogradError>([&] { sum(y).backward(); }, "Branches: branch 1");
}

TEST(BranchesGraphTest, ASecondBackwardNeedsTheHistory) {
  const Team team(2);
  Branches net = make_branches(Join::sum, with_identity);
  const Tensor y = sum(square(net(rows(4))));
  y.backward({}, {.retain_graph = true});
  const Tensor twice = net.parameters()[0].grad() * 2;
  y.backward();
  expect_same_bits(net.parameters()[0].grad(), twice);
  expect_throws<AutogradError>([&] { y.backward(); }, "got a second backward through it");
}

TEST(BranchesGraphTest, GradLeavesLeavesAlone) {
  const Team team(2);
  Branches net = make_branches(Join::sum, with_identity);
  const Tensor x = rows(4).set_requires_grad();
  const Tensor of_x = grad(sum(square(net(x))), x);
  EXPECT_FALSE(x.grad().defined());
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  sum(square(net(x))).backward();
  expect_same_bits(of_x, x.grad());
}

TEST(BranchesGraphTest, GraphsOutliveTheirMakerAndBlocksMove) {
  const Team team(2);
  const Tensor x = rows(2).set_requires_grad();
  Tensor y;
  {
    Branches first(Join::sum, Told(scale), Told(scale));
    first.set_mode(Mode::side_by_side);
    nn::Sequential net(std::move(first), nn::ReLU());
    y = net(x);
  }
  sum(y).backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(BranchesGraphTest, BranchesMayHaveBranches) {
  const auto make = [](Mode mode) {
    manual_seed(2);
    Branches inner(Join::sum, nn::Linear(6, 6), nn::Linear(6, 6));
    inner.set_mode(mode);
    Branches outer(Join::concatenate, nn::Sequential(std::move(inner), nn::Tanh()),
                   nn::Linear(6, 2));
    outer.set_mode(mode);
    return outer;
  };
  Branches reference = make(Mode::in_turn);
  {
    const Team team(1);
    sum(square(reference(rows(3)))).backward();
  }
  for (const Mode mode : kModes)
    for (const int threads : {2, 4}) {
      const Team team(mode == Mode::side_by_side ? threads : 1);
      Branches net = make(mode);
      sum(square(net(rows(3)))).backward();
      expect_same_state(net, reference);
    }
}

// Thread ranks: each has threads of its own for its branches, and the same gradients to
// communicate.
TEST(BranchesGraphTest, RanksTrainThem) {
  const Device device = default_device();
  run_ranks(2, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(device);
    Branches net = make_branches(Join::sum, residual);
    Plain plain = make_plain(Join::sum, residual);
    DistributedDataParallel model(net, comm), plain_model(plain, comm);
    const auto train = [&](auto& forward, nn::Module& module) {
      nn::SGD optimizer(module.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
      for (std::uint64_t step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        sum(square(forward(images(2, 2 * step + static_cast<std::uint64_t>(comm.rank())))))
            .backward();
        optimizer.step();
      }
    };
    {
      const Team team(2);
      train(model, net);
    }
    const Team team(1);
    train(plain_model, plain);
    expect_same_state(net, plain);
  });
}

// Simultaneous collectives of two branches would meet in another order on another rank.
TEST(BranchesGraphTest, SynchronisedBatchNormsMeetInTheOrderOfBranches) {
  const Device device = default_device();
  run_ranks(2, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(device);
    const Team team(2);
    Branches net = make_branches(Join::sum, residual);
    Plain plain = make_plain(Join::sum, residual);
    synchronize_batch_norm(net, comm);
    synchronize_batch_norm(plain, comm);
    for (int pass = 0; pass < 3; ++pass) {
      const Tensor x = images(2, static_cast<std::uint64_t>(comm.rank()));
      sum(square(net(x))).backward();
      sum(square(plain(x))).backward();
    }
    expect_same_state(net, plain);
  });
}

TEST(BranchesGraphTest, ReplicasOfADataParallelMayHaveThem) {
  const auto make = [] { return make_branches(Join::sum, with_identity); };
  const Team team(4);
  auto [reference, net] = twins(make);
  DataParallel parallel(net, make, devices(2));
  sum(square(parallel(rows(6)))).backward();
  sum(square(reference(rows(6)))).backward();
  expect_close_gradients(net, reference);
}

TEST(BranchesGraphTest, ABranchThatFailsIsNamedAndTheOthersEndFirst) {
  const Team team(3);
  for (const Mode mode : kModes) {
    std::atomic<bool> fails = true;
    std::atomic<int> num_ended = 0;
    const auto told = [&](int number) {
      return Told(
          [&](const Tensor& x, const Tensor& weight, int k) {
            if (fails && k > 0) throw DataError("told to fail", Where::current());
            ++num_ended;
            return x * weight;
          },
          number);
    };
    Branches net(Join::sum, told(0), told(1), told(2));
    net.set_mode(mode);
    for (int time = 0; time < 2; ++time)
      expect_throws<DataError>(
          [&] {
            net(ones({6, 6}));
          },
          "Branches: branch 1 (Told): told to fail");
    EXPECT_EQ(num_ended, 2);
    fails = false;
    sum(net(ones({6, 6}))).backward();
    expect_same_bits(net.parameters()[2].grad(), full({6}, 6));
  }
}

TEST(BranchesGraphTest, AFailureInBackwardIsNamedAndTheNextPassWorks) {
  const Team team(2);
  for (const Mode mode : kModes) {
    bool fails = true;
    const auto fail = [](const Tensor&) -> Tensor {
      throw IndexError("told to fail", Where::current());
    };
    Branches net(Join::sum, Told(scale), Told([&](const Tensor& x, const Tensor& weight, int) {
                   const Tensor z = x * 1;
                   if (fails) register_hook(z, fail);  // the weight already has its gradient then
                   return z * weight;
                 }));
    net.set_mode(mode);
    const Tensor x = ones({6, 6}).set_requires_grad();
    const auto pass = [&] { sum(net(x)).backward(); };
    expect_throws<IndexError>(pass, "Branches: branch 1 (Told): told to fail");
    for (const Tensor& weight : net.parameters()) EXPECT_FALSE(weight.grad().defined());
    fails = false;
    pass();
    for (const Tensor& weight : net.parameters()) expect_same_bits(weight.grad(), full({6}, 6));
    expect_same_bits(x.grad(), full({6, 6}, 2));
  }
}

TEST(BranchesGraphTest, WrongUseIsRefused) {
  const Team team(2);
  expect_throws<ValueError>([] { Branches(Join::sum)(rows(2)); }, "at least one branch; got none");
  Branches sizes(Join::sum, nn::Linear(6, 2), nn::Linear(6, 3), nn::Linear(6, 2));
  expect_throws<ShapeError>([&] { sizes(rows(4)); },
                            "must have one shape; got (4, 2), (4, 3), (4, 2)");
  Branches channels(Join::concatenate, nn::Identity(), nn::Flatten());
  expect_throws<ShapeError>([&] { channels(images(2)); },
                            "but for axis 1; got (2, 8, 8, 8), (2, 5");
  const Tensor y = sum(square(make_branches(Join::sum, with_identity)(rows(2))));
  expect_throws<AutogradError>([&] { y.backward({}, {.create_graph = true}); },
                               "create_graph must be off");
}

TEST(BranchesGraphTest, ASharedParameterIsNamed) {
  struct Tied : nn::Module {
    explicit Tied(const Tensor& weight) { parameter("tied", weight); }
    Tensor forward(const Tensor& x, Where) override { return x; }
  };
  const Tensor weight = ones({6});
  expect_throws<ValueError>(
      [&] { Branches(Join::sum, nn::Identity(), Tied(weight), Tied(weight)); },
      "got tied of branch 1 again as tied of branch 2");
}

TEST(BranchesGraphTest, ReportSaysWhatWasMeasured) {
  const Team team(2);
  Branches net = make_branches(Join::sum, residual, Mode::automatic);
  EXPECT_NE(net.report().find("not known: Mode::automatic"), std::string::npos);
  for (int pass = 0; pass < 13; ++pass) sum(net(images(2))).backward();
  synchronize(default_device());
  const std::string report = net.report();
  EXPECT_NE(report.find("Branches(sum) for x (2, 8, 8, 8)"), std::string::npos) << report;
  EXPECT_EQ(report.find("not known"), std::string::npos) << report;
  EXPECT_EQ(report.find(" -"), std::string::npos) << report;
}

// -- GPUs -----------------------------------------------------------------------------------------

class BranchesOnGpuTest : public testing::NeedsGpu {
 protected:
  void SetUp() override {
    if (default_device().is_cpu()) GTEST_SKIP() << "needs GPUs";
    NeedsGpu::SetUp();
  }
};

TEST_F(BranchesOnGpuTest, EachBranchHasAStreamThatIsNotTheCallers) {
  const Stream callers(gpu);
  const StreamGuard guard(callers);
  std::set<cudaStream_t> seen;
  const auto note = [&](const Tensor& x, const Tensor& weight, int) {
    seen.insert(current_stream(gpu).handle());
    return x * weight;
  };
  Branches net(Join::sum, Told(note), Told(note));
  net.set_mode(Mode::side_by_side);
  for (int pass = 0; pass < 2; ++pass) net(rows(2));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen.contains(callers.handle()));
  net.set_mode(Mode::in_turn);
  net(rows(2));
  EXPECT_TRUE(seen.contains(callers.handle()));
}

// Memory that is freed on one stream and used on another would be overwritten here, and the
// simulator would report it.
TEST_F(BranchesOnGpuTest, MemoryIsSafeWithTheCachingAllocatorAndOtherStreams) {
  for (const bool caching : {false, true}) {
    synchronize(gpu);
    set_cuda_caching(caching);
    Branches net = make_branches(Join::concatenate, inception);
    Plain plain = make_plain(Join::concatenate, inception);
    synchronize(gpu);
    std::optional<StreamGuard> guard;
    for (std::uint64_t pass = 0; pass < 6; ++pass) {
      const Stream stream(gpu);  // a fresh one, which nothing else orders
      guard.reset();
      guard.emplace(stream);
      sum(square(net(images(2, pass)))).backward();
      sum(square(plain(images(2, pass)))).backward();
      stream.synchronize();
    }
    expect_same_state(net, plain);
  }
}

// A captured step draws the random numbers of the step itself, branch by branch.
TEST_F(BranchesOnGpuTest, ACapturedStepHasTheBitsOfTheStepItself) {
  const auto make = [](Mode mode) {
    manual_seed(4);
    Branches net(Join::sum, nn::Sequential(nn::Linear(6, 6), nn::Dropout(0.5)),
                 nn::Sequential(nn::Linear(6, 6), nn::Dropout(0.3), nn::Dropout(0.3)));
    net.set_mode(mode);
    return net;
  };
  Branches net = make(Mode::side_by_side), reference = make(Mode::in_turn);
  const auto train = [](Branches& block, bool captured) {
    nn::SGD optimizer(block.parameters(), {.learning_rate = 0.1});
    const auto body = [&](const std::vector<Tensor>& batch) {
      optimizer.zero_grad();
      const Tensor loss = mean(square(block(batch[0])));
      loss.backward();
      optimizer.step();
      return std::vector{loss};
    };
    nn::CapturedStep step(body, block.parameters());
    manual_seed(9);
    for (std::uint64_t i = 0; i < 5; ++i) captured ? step({rows(4, i)}) : body({rows(4, i)});
    EXPECT_EQ(step.is_captured(), captured);
    return rand({4});
  };
  const Tensor later = train(net, true);
  expect_same_bits(later, train(reference, false));
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    expect_same_bits(net.parameters()[i].detach(), reference.parameters()[i].detach());
}

// A simulated device runs one kernel at a time, but copies meanwhile: one branch computes while the
// other copies.
TEST_F(BranchesOnGpuTest, OnTheSimulatedClockACopyIsHiddenBehindTheOtherBranch) {
  if (num_cuda_devices() < 2 || !is_cuda_simulated()) GTEST_SKIP() << "needs two simulated GPUs";
  const Device other(DeviceType::cuda, 1);
  const auto stay = [](const Tensor& x, const Tensor&, int) { return tanh(tanh(tanh(x))); };
  const auto go = [&](const Tensor& x, const Tensor&, int) {
    return to(to(to(to(x, other), gpu), other), gpu);
  };
  Branches net(Join::sum, Told(go), Told(stay));
  // Large, so that the host's time for queueing does not count.
  const Tensor x = zeros({1 << 22}).set_requires_grad();
  const auto time_of = [&](Mode mode) {
    net.set_mode(mode);
    synchronize(gpu);
    const Event begin(current_stream(gpu), /*timing=*/true);
    sum(net(x)).backward();
    const Event end(current_stream(gpu), /*timing=*/true);
    end.synchronize();
    return Event::milliseconds(begin, end);
  };
  time_of(Mode::side_by_side);
  time_of(Mode::in_turn);
  EXPECT_LT(time_of(Mode::side_by_side), time_of(Mode::in_turn));
}

}  // namespace
}  // namespace ringrad
