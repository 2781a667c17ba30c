// Compares pipelines with the whole model on one rank. Every rank computes the reference itself,
// with as many OpenMP threads as its stages have.

#include "ringrad/parallel/train/pipeline/pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/train/pipeline/piped_model.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

using MakeNet = nn::Sequential (*)();

// Checks one step of a pipeline on this rank: gradients, buffers, loss and kept activations.
void expect_whole_model(Communicator& comm, const PipelinePlan& plan, MakeNet make_net,
                        const LabelledBatch& batch, const PipelineOptions& options = {}) {
  nn::Sequential whole = make_net();
  const double loss = accumulate(whole, batch, plan.num_micro_batches);
  const std::size_t num_layers = whole.num_layers();
  auto stages = nn::Sequential::split(make_net(), equal_parts(num_layers, plan.num_stages));
  Pipeline pipeline(stages, comm, plan, cross_entropy_loss, options);
  EXPECT_NEAR(pipeline.train_step(batch.x, batch.y).item<double>(), loss, 1e-6);
  for (int s = comm.rank(); s < plan.num_stages; s += comm.world_size())
    expect_same_gradients(stages[static_cast<std::size_t>(s)], whole);
  EXPECT_EQ(pipeline.peak_kept(),
            peak_kept(pipeline.plan())[static_cast<std::size_t>(comm.rank())]);
}

std::vector<PipelinePlan> plans_for(int p, int m) {
  std::vector<PipelinePlan> plans = {gpipe(p, m), one_forward_one_backward(p, m),
                                     zero_bubble(p, m)};
  for (const int v : {2, 3})
    if (m % p == 0 && p * v <= 12) plans.push_back(interleaved(p, v, m));
  return plans;
}

TEST(PipelineTest, EveryScheduleGivesTheGradientsOfTheWholeModelBitByBit) {
  for (int p = 1; p <= 4; ++p)
    for (const int m : {1, 4, 6, 8})
      for (const PipelinePlan& plan : plans_for(p, m)) {
        SCOPED_TRACE(::testing::Message() << plan);
        run_ranks(p, [&](Communicator& comm) {
          expect_whole_model(comm, plan, deep_mlp, mlp_batch(24));
        });
      }
}

TEST(PipelineTest, GpusGiveTheGradientsOfTheWholeModelBitByBit) {
  if (num_gpus() == 0) GTEST_SKIP();
  for (const int p : {2, 4})
    for (const PipelinePlan& plan : plans_for(p, 4)) {
      SCOPED_TRACE(::testing::Message() << plan);
      run_ranks(p, [&](Communicator& comm) {
        const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % num_cuda_devices()));
        expect_whole_model(comm, plan, deep_mlp, mlp_batch(8));
      });
    }
}

TEST(PipelineTest, BatchNormSeesMicroBatchesOneAfterTheOther) {
  for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"})
    run_ranks_on_devices(2, [&](Communicator& comm) {
      expect_whole_model(comm, make_pipeline_plan(schedule, 2, 1, 4), small_convnet,
                         image_batch(8));
    });
}

TEST(PipelineTest, ARowMoreOrLessInAMicroBatchCountsByItsRows) {
  run_ranks_on_devices(2, [&](Communicator& comm) {
    expect_whole_model(comm, one_forward_one_backward(2, 4), deep_mlp, mlp_batch(10));
  });
}

TEST(PipelineTest, CheckpointingKeepsGradientsAndRunningStatistics) {
  run_ranks_on_devices(2, [&](Communicator& comm) {
    expect_whole_model(comm, one_forward_one_backward(2, 4), small_convnet, image_batch(8),
                       {.checkpoint_activations = true});
  });
}

TEST(PipelineTest, CheckpointingKeepsOnlyTheInputsOfStages) {
  const auto peak_bytes = [](bool checkpoint) {
    std::int64_t peak = 0;
    run_ranks(1, [&](Communicator& comm) {
      manual_seed(1);
      nn::Sequential net;
      for (int i = 0; i < 8; ++i) {
        net.append(nn::Linear(64, 64));
        net.append(nn::Tanh());
      }
      auto stages = nn::Sequential::split(std::move(net), {0});
      Pipeline pipeline(
          stages, comm, gpipe(1, 8),
          [](const Tensor& y, const Tensor& target) { return mean(square(y - target)); },
          {.checkpoint_activations = checkpoint});
      const Tensor x = randn({4096, 64});
      pipeline.train_step(x, x);
      reset_peak_stats();
      const auto before = allocator_stats().allocated_bytes;
      pipeline.train_step(x, x);
      peak = allocator_stats().peak_allocated_bytes - before;
    });
    return peak;
  };
  EXPECT_LT(4 * peak_bytes(true), peak_bytes(false));
}

TEST(PipelineTest, TrainsAsTheWholeModelOverSeveralSteps) {
  run_ranks(3, [&](Communicator& comm) {
    nn::Sequential whole = deep_mlp();
    auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, 3));
    Pipeline pipeline(stages, comm, zero_bubble(3, 4), cross_entropy_loss);
    constexpr nn::SGDOptions kSgd{.learning_rate = 0.1, .momentum = 0.9};
    nn::SGD reference(whole.parameters(), kSgd), optimizer(pipeline.parameters(), kSgd);
    for (std::uint64_t step = 0; step < 5; ++step) {
      const LabelledBatch batch = mlp_batch(16, step);
      reference.zero_grad();
      optimizer.zero_grad();
      accumulate(whole, batch, 4);
      pipeline.train_step(batch.x, batch.y);
      reference.step();
      optimizer.step();
    }
    const nn::StateDict all = whole.state_dict();
    for (const auto& [name, parameter] :
         stages[static_cast<std::size_t>(comm.rank())].named_parameters())
      expect_same_bits(parameter.detach(), all.at(name).detach());
  });
}

TEST(PipelineTest, ForwardGivesTheWholeModelsOutputOnTheLastStagesRank) {
  for (const auto& plan : {gpipe(2, 4), one_forward_one_backward(2, 4), interleaved(2, 2, 4)})
    run_ranks_on_devices(2, [&](Communicator& comm) {
      nn::Sequential whole = deep_mlp();
      auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, plan.num_stages));
      Pipeline pipeline(stages, comm, plan, cross_entropy_loss);
      const LabelledBatch batch = mlp_batch(8);
      const Tensor output = pipeline.forward(comm.rank() == 0 ? batch.x : Tensor());
      EXPECT_EQ(output.defined(), comm.rank() == 1);
      if (output.defined()) {
        EXPECT_FALSE(output.requires_grad());
        for (std::int64_t b = 0; b < 4; ++b)
          expect_same_bits(slice(output, 0, 2 * b, 2 * b + 2),
                           whole.forward(slice(batch.x, 0, 2 * b, 2 * b + 2)).detach());
      }
    });
}

TEST(PipelineTest, ForwardTakesFewerRowsThanMicroBatchesOrNoneAndKeepsTheirOrder) {
  // Micro-batches from the last to the first.
  PipelinePlan backwards = empty_pipeline_plan("backwards", 2, 1, 4);
  for (int device = 0; device < 2; ++device)
    for (const PipelineOp op : {PipelineOp::forward, PipelineOp::backward})
      for (int b = 4; b-- > 0;)
        backwards.actions[static_cast<std::size_t>(device)].push_back({op, device, b});
  for (const auto& plan : {gpipe(1, 4), gpipe(2, 4), backwards})
    run_ranks(plan.num_devices, [&](Communicator& comm) {
      nn::Sequential whole = deep_mlp();
      auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, plan.num_stages));
      Pipeline pipeline(stages, comm, plan, cross_entropy_loss);
      for (const std::int64_t rows : {0, 1, 3, 8}) {
        const Tensor x = mlp_batch(rows).x, output = pipeline.forward(x);
        if (comm.rank() == plan.num_devices - 1) expect_close(output, whole.forward(x).detach());
      }
    });
}

TEST(PipelineTest, ClipsTheNormOfAllRanksGradients) {
  run_ranks_on_devices(3, [](Communicator& comm) {
    nn::Sequential whole = deep_mlp();
    const LabelledBatch batch = mlp_batch(8);
    accumulate(whole, batch, 4);
    const nn::SGD reference(whole.parameters(), {.learning_rate = 0.1});
    const double norm = nn::clip_grad_norm(reference.arenas(), 0.1);
    ASSERT_GT(norm, 0.1);
    auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, 3));
    Pipeline pipeline(stages, comm, gpipe(3, 4), cross_entropy_loss);
    pipeline.train_step(batch.x, batch.y);
    // One rank's gradients are not finite. All ranks learn of it, and go on.
    if (comm.rank() == 1) fill_(pipeline.parameters()[0].grad(), INFINITY);
    EXPECT_THROW(pipeline.clip_grad_norm(0.1), ValueError);
    for (nn::Sequential& stage : stages) stage.zero_grad();
    pipeline.train_step(batch.x, batch.y);
    EXPECT_NEAR(pipeline.clip_grad_norm(0.1), norm, 1e-5 * norm);
    const auto& own = stages[static_cast<std::size_t>(comm.rank())];
    for (const auto& [name, parameter] : own.named_parameters())
      for (const auto& [whole_name, expected] : whole.named_parameters())
        if (name == whole_name) expect_close(parameter.grad(), expected.grad());
  });
}

TEST(PipelineTest, TellsTheLossOfEachMicroBatch) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential whole = deep_mlp();
    auto stages = nn::Sequential::split(deep_mlp(), {0, 6});
    Pipeline pipeline(stages, comm, one_forward_one_backward(2, 4), cross_entropy_loss);
    pipeline.eval();
    EXPECT_FALSE(stages[static_cast<std::size_t>(comm.rank())].is_training());
    const LabelledBatch batch = mlp_batch(8);
    pipeline.train_step(batch.x, batch.y);
    pipeline.forward(batch.x);  // leaves them unchanged
    const auto& losses = pipeline.micro_batch_losses();
    ASSERT_EQ(losses.size(), comm.rank() == 1 ? 4u : 0u);
    for (std::size_t b = 0; b < losses.size(); ++b) {
      const auto row = static_cast<std::int64_t>(2 * b);
      const Tensor y = whole.forward(slice(batch.x, 0, row, row + 2));
      expect_same_bits(losses[b], cross_entropy(y, slice(batch.y, 0, row, row + 2)).detach());
    }
  });
}

TEST(PipelineTest, StagesNeedNotBeThereWhereTheyDoNotRun) {
  run_ranks(2, [&](Communicator& comm) {
    auto stages = nn::Sequential::split(deep_mlp(), {0, 5});
    std::vector<nn::Module*> own(2, nullptr);
    own[static_cast<std::size_t>(comm.rank())] = &stages[static_cast<std::size_t>(comm.rank())];
    Pipeline pipeline(own, comm, gpipe(2, 2), cross_entropy_loss);
    const LabelledBatch batch = mlp_batch(4);
    // Each rank passes only what it uses.
    pipeline.train_step(comm.rank() == 0 ? batch.x : Tensor(),
                        comm.rank() == 1 ? batch.y : Tensor());
    nn::Sequential whole = deep_mlp();
    accumulate(whole, batch, 2);
    expect_same_gradients(stages[static_cast<std::size_t>(comm.rank())], whole);
  });
}

TEST(PipelineTest, AScheduleOfOnesOwnIsProvedAndRun) {
  // One micro-batch after another, as on a single device.
  PipelinePlan plan = empty_pipeline_plan("one by one", 2, 1, 3);
  for (int device = 0; device < 2; ++device)
    for (int b = 0; b < 3; ++b)
      for (const PipelineOp op : {PipelineOp::forward, PipelineOp::backward})
        plan.actions[static_cast<std::size_t>(device)].push_back({op, device, b});
  run_ranks(2, [&](Communicator& comm) { expect_whole_model(comm, plan, deep_mlp, mlp_batch(6)); });
}

// A stage with the same weight at both ends of the pipeline: x W^T W.
struct Projection : nn::Module {
  explicit Projection(Tensor weight, bool transposed)
      : weight(parameter("weight", weight)), transposed(transposed) {}
  Tensor forward(const Tensor& x, Where at) override {
    return matmul(x, transposed ? weight : transpose(weight, 0, 1), at);
  }
  Tensor weight;
  bool transposed;
};

TEST(PipelineTest, TiedParametersGetTheSumOfTheirGradientsAndStayEqual) {
  const auto square_loss = [](const Tensor& y, const Tensor& target) {
    return mean(square(y - target));
  };
  // The tie is found, given, or both.
  for (const int way : {0, 1, 2})
    run_ranks_on_devices(2, [&](Communicator& comm) {
      const bool is_found = way != 1;
      manual_seed(3);
      const Tensor weight = randn({4, 6}), x = randn({8, 6});
      Projection down(clone(weight), false);
      Projection up(is_found ? down.weight : clone(weight) * (1.0f + comm.rank()), true);
      std::vector<nn::Module*> stages = {&down, &up};
      PipelineOptions options;
      if (!is_found) stages[comm.rank() == 0 ? 1 : 0] = nullptr;
      if (way > 0) options.tied = {{{0, "weight"}, {1, "weight"}}};
      Pipeline pipeline(stages, comm, gpipe(2, 2), square_loss, options);
      const Tensor& own = comm.rank() == 0 ? down.weight : up.weight;
      nn::SGD optimizer(pipeline.parameters(), {.learning_rate = 0.1});

      const Tensor reference = clone(weight);
      reference.set_requires_grad();
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        reference.set_grad({});
        for (int part = 0; part <= step; ++part) {  // gradients of several steps may accumulate
          pipeline.train_step(x, x);
          square_loss(matmul(matmul(x, transpose(reference, 0, 1)), reference), x).backward();
        }
        expect_close(own.grad(), reference.grad());
        optimizer.step();
        kernels::add_(reference.detach(), reference.grad(), -0.1);
      }
      const Tensor first = clone(own.detach());
      comm.broadcast(first);
      expect_same_bits(own.detach(), first);
    });
}

TEST(PipelineTest, AFrozenStageHandsGradientsOn) {
  run_ranks(3, [&](Communicator& comm) {
    for (const std::size_t frozen : {0, 1, 2}) {
      nn::Sequential whole = deep_mlp();
      accumulate(whole, mlp_batch(8), 4);
      auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, 3));
      for (const Tensor& parameter : stages[frozen].parameters())
        parameter.set_requires_grad(false);
      Pipeline pipeline(stages, comm, zero_bubble(3, 4), cross_entropy_loss);
      const LabelledBatch batch = mlp_batch(8);
      pipeline.train_step(batch.x, batch.y);
      const auto own = static_cast<std::size_t>(comm.rank());
      if (own != frozen) expect_same_gradients(stages[own], whole);
    }
  });
}

TEST(PipelineTest, TimesAreThoseOfThePlansActions) {
  run_ranks_on_devices(2, [&](Communicator& comm) {
    auto stages = nn::Sequential::split(deep_mlp(), {0, 5});
    Pipeline pipeline(stages, comm, one_forward_one_backward(2, 4), cross_entropy_loss,
                      {.measure = true});
    const LabelledBatch batch = mlp_batch(8);
    pipeline.train_step(batch.x, batch.y);
    const PipelineTimes times = pipeline.times();
    ASSERT_EQ(times.spans.size(), 2u);
    for (std::size_t device = 0; device < 2; ++device) {
      ASSERT_EQ(times.spans[device].size(), pipeline.plan().actions[device].size());
      double end_s = 0;
      for (const auto& span : times.spans[device]) {
        EXPECT_LE(end_s, span.start_s);
        EXPECT_LE(span.start_s, span.end_s);
        end_s = span.end_s;
      }
    }
    EXPECT_GT(times.total_s, 0);
    EXPECT_GE(times.bubble, 0);
    EXPECT_LT(times.bubble, 1);
  });
}

// Holds even by the clocks of ranks that share processors and learn late that a step has begun.
TEST(PipelineTest, NothingIsReceivedBeforeItIsSent) {
  using enum PipelineOp;
  run_ranks(6, [&](Communicator& comm) {
    const DefaultDeviceGuard guard{Device()};
    auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, 6));
    Pipeline pipeline(stages, comm, one_forward_one_backward(6, 6), cross_entropy_loss,
                      {.measure = true});
    const LabelledBatch batch = mlp_batch(12);
    for (int step = 0; step < 10; ++step) {
      pipeline.train_step(batch.x, batch.y);
      const PipelineTimes times = pipeline.times();
      std::map<std::tuple<PipelineOp, int, int>, double> sent_s;  // by the action that receives it
      const auto for_all = [&](const auto& body) {
        for (std::size_t device = 0; device < times.spans.size(); ++device)
          for (std::size_t i = 0; i < times.spans[device].size(); ++i)
            body(pipeline.plan().actions[device][i], times.spans[device][i]);
      };
      for_all([&](const PipelineAction& action, const PipelineTimes::Span& span) {
        const auto& [op, stage, micro_batch] = action;
        if (op == send_activation) sent_s[{recv_activation, stage + 1, micro_batch}] = span.start_s;
        if (op == send_gradient) sent_s[{recv_gradient, stage - 1, micro_batch}] = span.start_s;
      });
      EXPECT_EQ(sent_s.size(), 2u * 5 * 6);
      for_all([&](const PipelineAction& action, const PipelineTimes::Span& span) {
        const auto sent = sent_s.find({action.op, action.stage, action.micro_batch});
        if (sent != sent_s.end()) {
          EXPECT_GE(span.end_s, sent->second) << action;
        }
      });
    }
  });
}

}  // namespace
}  // namespace ringrad
