// Pipelines on process ranks: the same bits as on threads, and a clean end when a stage is killed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/fault_point.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/parallel/train/pipeline/piped_model.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

std::atomic<int> current_step = 0;

// Trains for `num_steps`, or forever if negative. Returns this rank's parameters.
std::vector<float> train(Communicator& comm, const PipelinePlan& plan, int num_steps) {
  auto stages = nn::Sequential::split(deep_mlp(), equal_parts(12, plan.num_stages));
  Pipeline pipeline(stages, comm, plan, cross_entropy_loss);
  nn::SGD optimizer(pipeline.parameters(), {.learning_rate = 0.1});
  for (int step = 0; step != num_steps; ++step) {
    const LabelledBatch batch = mlp_batch(16, static_cast<std::uint64_t>(step));
    current_step = step;
    optimizer.zero_grad();
    pipeline.train_step(batch.x, batch.y);
    optimizer.step();
  }
  std::vector<float> all;
  for (const Tensor& parameter : pipeline.parameters())
    for (const float value : parameter.to_vector<float>()) all.push_back(value);
  return all;
}

TEST(PipelineDeathTest, ProcessesComputeWhatThreadsDo) {
  for (const PipelinePlan& plan : {one_forward_one_backward(2, 4), interleaved(2, 3, 4)}) {
    Processes processes(2, ProcessGroupOptions(), [&plan](Communicator& comm) -> std::string {
      const auto own = train(comm, plan, 3);
      std::vector<float> reference;
      run_ranks(2, [&](Communicator& thread) {
        const auto parameters = train(thread, plan, 3);
        if (thread.rank() == comm.rank()) reference = parameters;
      });
      return std::memcmp(own.data(), reference.data(), own.size() * sizeof(float)) == 0
                 ? ""
                 : "other bits than threads";
    });
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  }
}

constexpr int kActionsBeforeDeath = 5;

// In the middle of the second step.
void die_between_actions(FaultPoint point) {
  static int num_actions = 0;
  if (point == FaultPoint::pipeline_action_done && current_step == 1 &&
      ++num_actions == kActionsBeforeDeath)
    raise(SIGKILL);
}

TEST(PipelineDeathTest, AStageThatIsKilledEndsTheOthers) {
  ProcessGroupOptions options;
  options.deadline = std::chrono::seconds(5);
  Processes processes(3, options, [](Communicator& comm) -> std::string {
    const PipelinePlan plan = zero_bubble(3, 4);
    EXPECT_GT(plan.actions[1].size(), std::size_t{kActionsBeforeDeath});
    if (comm.rank() == 1) fault_handler = die_between_actions;
    try {
      train(comm, plan, -1);
    } catch (const CollectiveError& error) {
      const std::string text = error.what();
      return text.find("failure of rank 1: it has died") != text.npos ? "" : text;
    }
    return "no error";
  });
  for (const int rank : {0, 2}) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  EXPECT_EQ(processes.wait(1), -SIGKILL);
}

}  // namespace
}  // namespace ringrad
