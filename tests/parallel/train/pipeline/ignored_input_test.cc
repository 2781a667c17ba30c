// Stages that do not use their input.

#include <gtest/gtest.h>

#include <functional>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/tests/parallel/train/pipeline/piped_model.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

// As on one device, what no loss depends on has no gradient, and optimizers leave it alone.
struct IgnoresInput : nn::Module {
  explicit IgnoresInput(std::function<bool(int)> ignores_when) : ignores(std::move(ignores_when)) {}
  Tensor forward(const Tensor& x, Where at) override {
    return linear(ignores(num_calls++) ? full(x.shape(), 0.5) : x, at);
  }
  nn::Linear& linear = child("linear", nn::Linear(6, 6));
  std::function<bool(int)> ignores;
  int num_calls = 0;
};

TEST(IgnoredInputTest, StagesBeforeOneThatIgnoresItsInputGetNoGradient) {
  for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"})
    for (const int ranks : {1, 3})
      for (const bool always : {true, false}) {
        SCOPED_TRACE(::testing::Message() << schedule << " on " << ranks << ", always " << always);
        run_ranks(ranks, [&](Communicator& comm) {
          const auto ignores = [always](int call) { return always || call == 1; };
          const auto make = [&] {
            manual_seed(5);
            nn::Sequential net;
            net.append(nn::Linear(6, 6));
            net.append(nn::Linear(6, 6));
            net.append(IgnoresInput(ignores));
            return net;
          };
          nn::Sequential whole = make();
          const LabelledBatch batch = mlp_batch(8);
          accumulate(whole, batch, 4);
          auto stages = nn::Sequential::split(make(), {0, 1, 2});
          PipelinePlan plan = make_pipeline_plan(schedule, 3, 1, 4);
          if (ranks == 1) plan = interleaved(1, 3, 4);
          Pipeline pipeline(stages, comm, plan, cross_entropy_loss);
          pipeline.train_step(batch.x, batch.y);
          for (int s = comm.rank(); s < 3; s += ranks)
            for (const auto& [name, parameter] :
                 stages[static_cast<std::size_t>(s)].named_parameters()) {
              const Tensor expected = whole.state_dict().at(name).grad();
              EXPECT_EQ(parameter.grad().defined(), s == 2 || !always) << name;
              ASSERT_EQ(parameter.grad().defined(), expected.defined()) << name;
              if (expected.defined()) expect_same_bits(parameter.grad(), expected);
            }
        });
      }
}

}  // namespace
}  // namespace ringrad
