// Wrong arguments, and stages that fail: every rank gets an error, and no rank waits forever.

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/train/pipeline/piped_model.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

// The error that `body` throws on each rank.
std::vector<std::string> errors_of(int world_size, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  run_ranks(world_size, [&](Communicator& comm) {
    auto& error = errors[static_cast<std::size_t>(comm.rank())];
    try {
      body(comm);
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  return errors;
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" has no \"" << part << '"';
}

// Every rank must be refused with the same message.
void expect_refused(int world_size, const std::function<void(Communicator&)>& body,
                    const std::string& part) {
  for (const std::string& error : errors_of(world_size, body)) expect_in(error, part);
}

void make_pipeline(Communicator& comm, const PipelinePlan& plan, int num_stages = 2,
                   const PipelineOptions& options = {}) {
  auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, num_stages));
  const Pipeline pipeline(stages, comm, plan, cross_entropy_loss, options);
}

TEST(PipelineFailureTest, PlansThatDoNotFitAreRefusedOnEveryRank) {
  expect_refused(
      2, [](Communicator& comm) { make_pipeline(comm, gpipe(3, 4), 3); },
      "the plan must be for as many devices as there are ranks; got 3 and 2");
  expect_refused(
      2, [](Communicator& comm) { make_pipeline(comm, gpipe(2, 4), 3); },
      "there must be as many stages as the plan has; got 3 and 2");
  expect_refused(
      2,
      [](Communicator& comm) {
        make_pipeline(comm, zero_bubble(2, 4), 2, {.checkpoint_activations = true});
      },
      "with checkpoint, backward passes must be whole; got backward_input stage");
}

TEST(PipelineFailureTest, SchedulesThatWaitForEachOtherAreRefusedOnEveryRank) {
  // Rank 0 needs the gradient of micro-batch 1 before it computes micro-batch 1.
  PipelinePlan cyclic = gpipe(2, 2);
  std::swap(cyclic.actions[0][1], cyclic.actions[0][3]);
  expect_refused(
      2, [&](Communicator& comm) { make_pipeline(comm, cyclic); }, "the plan must be proved; got ");
}

TEST(PipelineFailureTest, RanksMustHaveOnePlan) {
  expect_refused(
      2,
      [](Communicator& comm) {
        make_pipeline(comm, comm.rank() == 0 ? gpipe(2, 4) : one_forward_one_backward(2, 4));
      },
      "all ranks must have rank 0's plan and options; different on rank 1");
}

TEST(PipelineFailureTest, AMissingStageEndsAllRanks) {
  const auto errors = errors_of(2, [](Communicator& comm) {
    auto stages = nn::Sequential::split(deep_mlp(), {0, 6});
    const std::vector<nn::Module*> own = {&stages[0], comm.rank() == 1 ? nullptr : &stages[1]};
    const Pipeline pipeline(own, comm, gpipe(2, 2), cross_entropy_loss);
  });
  expect_in(errors[1], "rank 1 must have stage 1; got null");
  expect_in(errors[0], "rank 1");
}

TEST(PipelineFailureTest, RanksMustAgreeOnMessagesAndOptions) {
  // Both orders are proved, each for itself.
  PipelinePlan other = with_messages(gpipe(2, 2));
  auto& sends = other.actions[0];
  std::swap(sends[1], sends[2]);  // forward 0, forward 1, send 0, send 1
  expect_refused(
      2,
      [&](Communicator& comm) {
        make_pipeline(comm, comm.rank() == 0 ? with_messages(gpipe(2, 2)) : other);
      },
      "all ranks must have rank 0's plan and options; different on rank 1");
  expect_refused(
      2,
      [&](Communicator& comm) {
        PipelineOptions options;
        options.measure = comm.rank() == 1;
        make_pipeline(comm, gpipe(2, 2), 2, options);
      },
      "all ranks must have rank 0's plan and options");
}

TEST(PipelineFailureTest, AParameterIsInOneTie) {
  expect_refused(
      2,
      [](Communicator& comm) {
        PipelineOptions options;
        options.tied = {{{0, "0.weight"}, {1, "7.weight"}}, {{0, "0.weight"}, {1, "9.weight"}}};
        make_pipeline(comm, gpipe(2, 2), 2, options);
      },
      "a parameter must be in one tie; got \"0.weight\" of stage 0 twice");
}

TEST(PipelineFailureTest, TrainingNeedsGradientsAndALossWithHistory) {
  expect_refused(
      2,
      [](Communicator& comm) {
        auto stages = nn::Sequential::split(deep_mlp(), {0, 6});
        Pipeline pipeline(stages, comm, gpipe(2, 2), cross_entropy_loss);
        const NoGradGuard guard;
        const LabelledBatch batch = mlp_batch(4);
        pipeline.train_step(batch.x, batch.y);
      },
      "gradients must be on; got a call under NoGradGuard");
  expect_refused(
      1,
      [](Communicator& comm) {
        auto stages = nn::Sequential::split(deep_mlp(), {0});
        Pipeline pipeline(stages, comm, gpipe(1, 2), [](const Tensor& y, const Tensor& target) {
          return cross_entropy(y, target).detach();
        });
        const LabelledBatch batch = mlp_batch(4);
        pipeline.train_step(batch.x, batch.y);
      },
      "the loss must be computed from the output; got one without history");
  expect_refused(
      1,
      [](Communicator& comm) {
        auto stages = nn::Sequential::split(deep_mlp(), {0});
        Pipeline pipeline(stages, comm, gpipe(1, 2), cross_entropy_loss);
        pipeline.train_step(mlp_batch(8).x, mlp_batch(2).y);
      },
      "target must have as many rows as the output; got (1,) for (4, 3)");
}

// A stage that behaves differently in one of its calls.
struct Special : nn::Module {
  Special(int call, std::function<Tensor(const Tensor&)> what)
      : call(call), what(std::move(what)) {}
  Tensor forward(const Tensor& x, Where at) override {
    const Tensor y = linear(x, at);
    return num_calls++ == call ? what(y) : y;
  }
  nn::Linear& linear = child("linear", nn::Linear(6, 6));
  int call, num_calls = 0;
  std::function<Tensor(const Tensor&)> what;
};

// Three stages; the middle one is special in its third micro-batch.
std::vector<std::string> errors_with(const std::function<Tensor(const Tensor&)>& what,
                                     const std::string& schedule = "1f1b", std::int64_t rows = 8) {
  return errors_of(3, [&](Communicator& comm) {
    manual_seed(1);
    nn::Linear first(6, 6), last(6, 3);
    Special middle(2, what);
    Pipeline pipeline({&first, &middle, &last}, comm, make_pipeline_plan(schedule, 3, 1, 4),
                      cross_entropy_loss);
    const LabelledBatch batch = mlp_batch(rows);
    pipeline.train_step(batch.x, batch.y);
  });
}

TEST(PipelineFailureTest, AStageThatThrowsEndsAllStagesWithItsName) {
  for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const auto errors = errors_with(
        [](const Tensor&) -> Tensor { throw ValueError("too much", Where::current()); }, schedule);
    expect_in(errors[1], "Pipeline: forward stage 1 micro-batch 2: too much");
    for (const int rank : {0, 2}) {
      expect_in(errors[static_cast<std::size_t>(rank)], "rank 1");
      expect_in(errors[static_cast<std::size_t>(rank)], "too much");
    }
  }
}

TEST(PipelineFailureTest, ABackwardFunctionThatThrowsEndsAllStages) {
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    const auto errors = errors_with(
        [](const Tensor& y) {
          const Tensor z = clone(y.detach());
          record("thrower", Where::current(), z, {&y}, [](BackwardContext& context) {
            throw ValueError("no way back", context.where());
          });
          return z;
        },
        schedule);
    expect_in(errors[1], "stage 1 micro-batch 2: no way back");
    for (const int rank : {0, 2}) expect_in(errors[static_cast<std::size_t>(rank)], "rank 1");
  }
}

TEST(PipelineFailureTest, ADeviceThatRunsOutOfMemoryEndsAllStages) {
  const auto errors = errors_with([](const Tensor&) { return zeros({std::int64_t{1} << 45}); });
  expect_in(errors[1], "Pipeline: forward stage 1 micro-batch 2: ");
  for (const int rank : {0, 2}) expect_in(errors[static_cast<std::size_t>(rank)], "rank 1");
}

TEST(PipelineFailureTest, WhatAStageHandsOnMustHaveAGradient) {
  const auto errors = errors_with([](const Tensor& y) { return to(y.detach(), DType::int64); });
  expect_in(errors[1], "what a stage hands on");
  expect_in(errors[2], "rank 1");
}

TEST(PipelineFailureTest, EachMicroBatchNeedsARow) {
  const auto errors = errors_with([](const Tensor& y) { return y; }, "gpipe", 3);
  expect_in(errors[0], "x must have a row for each of 4 micro-batches; got (3, 6)");
  expect_in(errors[1], "rank 0");
}

TEST(PipelineFailureTest, AnActivationOfAnotherShapeIsTheNextLayersError) {
  const auto errors = errors_with([](const Tensor& y) { return slice(y, 1, 0, 5); });
  expect_in(errors[2], "Pipeline: forward stage 2 micro-batch 2: linear");
  for (const int rank : {0, 1}) expect_in(errors[static_cast<std::size_t>(rank)], "rank 2");
}

TEST(PipelineFailureTest, TheLossMustBeOneNumber) {
  expect_refused(
      1,
      [](Communicator& comm) {
        auto stages = nn::Sequential::split(deep_mlp(), {0});
        Pipeline pipeline(stages, comm, gpipe(1, 2),
                          [](const Tensor& y, const Tensor&) { return y; });
        const LabelledBatch batch = mlp_batch(4);
        pipeline.train_step(batch.x, batch.y);
      },
      "the loss must have one element; got (2, 3)");
  expect_refused(
      1,
      [](Communicator& comm) {
        auto stages = nn::Sequential::split(deep_mlp(), {0});
        Pipeline pipeline(stages, comm, gpipe(1, 2), cross_entropy_loss);
        pipeline.train_step(mlp_batch(4).x);
      },
      "target must be given on the rank of this stage");
}

TEST(PipelineFailureTest, AFailureInOneReplicaEndsAllReplicas) {
  // Ranks 0, 1 are one pipeline, ranks 2, 3 the other.
  const auto errors = errors_of(4, [&](Communicator& comm) {
    const auto pipeline_comm = comm.split(comm.rank() / 2), replicas = comm.split(comm.rank() % 2);
    manual_seed(1);
    nn::Linear first(6, 6), last(6, 3);
    Special special(1, [&](const Tensor& y) {
      if (comm.rank() == 2) throw ValueError("a bad day", Where::current());
      return y;
    });
    nn::Sequential second(nn::Tanh(), std::move(last));
    Pipeline pipeline({&special, &second}, *pipeline_comm, gpipe(2, 2), cross_entropy_loss,
                      {.replicas = replicas.get()});
    const LabelledBatch batch = mlp_batch(4);
    pipeline.train_step(batch.x, batch.y);
  });
  expect_in(errors[2], "Pipeline: forward stage 0 micro-batch 1: a bad day");
  for (const std::string& error : errors) expect_in(error, "a bad day");
}

// Appends one column per call so far.
struct Widen : nn::Module {
  Tensor forward(const Tensor& x, Where) override {
    std::vector<Tensor> parts = {x};
    for (int i = 0; i < num_calls; ++i) parts.push_back(slice(x, 1, 0, 1));
    ++num_calls;
    return concatenate(parts, 1);
  }
  int num_calls = 0;
};
struct Narrow : nn::Module {
  Tensor forward(const Tensor& x, Where) override { return slice(x, 1, -6); }
};

TEST(PipelineFailureTest, ShapesMayChangeBetweenMicroBatches) {
  run_ranks(2, [](Communicator& comm) {
    const auto make = [] {
      manual_seed(1);
      return nn::Sequential(nn::Linear(6, 6), Widen(), Narrow(), nn::Linear(6, 3));
    };
    nn::Sequential whole = make();
    const LabelledBatch batch = mlp_batch(8);
    accumulate(whole, batch, 4);
    auto stages = nn::Sequential::split(make(), {0, 2});
    Pipeline pipeline(stages, comm, one_forward_one_backward(2, 4), cross_entropy_loss);
    pipeline.train_step(batch.x, batch.y);
    expect_same_gradients(stages[static_cast<std::size_t>(comm.rank())], whole);
  });
}

TEST(PipelineFailureTest, TheRanksOfAPipelineThatFailedCanGoOnInANewGroup) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential whole = deep_mlp();
    accumulate(whole, mlp_batch(8), 4);
    auto stages = nn::Sequential::split(deep_mlp(), {0, 6});
    // Rank 0 may have failed before rank 1 has constructed its pipeline.
    const auto fail = [&] {
      Pipeline pipeline(stages, comm, gpipe(2, 4), cross_entropy_loss);
      pipeline.train_step(mlp_batch(3).x, mlp_batch(8).y);
    };
    EXPECT_ANY_THROW(fail());
    const auto again = comm.shrink();
    for (nn::Sequential& stage : stages) stage.zero_grad();
    Pipeline pipeline(stages, *again, gpipe(2, 4), cross_entropy_loss);
    const LabelledBatch batch = mlp_batch(8);
    pipeline.train_step(batch.x, batch.y);
    expect_same_gradients(stages[static_cast<std::size_t>(again->rank())], whole);
  });
}

}  // namespace
}  // namespace ringrad
