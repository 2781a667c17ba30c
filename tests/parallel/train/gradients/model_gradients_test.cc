// The same model on data x pipeline x tensor ranks, with and without sharded optimizer state, and
// on one device with the whole batch: norms, skipped steps, and parameters after several steps are
// those of the one device.

#include "ringrad/parallel/train/gradients/model_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/lbfgs.h"
#include "ringrad/nn/optimizer/muon.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/mesh.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/tensor/tensor_parallel.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

constexpr std::int64_t kRows = 16;
constexpr int kSteps = 4, kBadStep = 1;
constexpr double kMaxNorm = 0.05;
constexpr nn::SGDOptions kSgd{.learning_rate = 0.5, .momentum = 0.9};

struct Mixture {
  int data, pipeline, tensor;
  bool is_sharded;  // the optimizer's state, among the data axis

  int num_ranks() const { return data * pipeline * tensor; }
};

std::string text_of(const Mixture& m) {
  return concat(m.data, " x ", m.pipeline, " x ", m.tensor, m.is_sharded ? ", sharded" : "");
}

const std::vector<Mixture>& mixtures() {
  static const std::vector<Mixture> all{
      {2, 1, 1, false}, {2, 1, 1, true},  {1, 2, 1, false}, {2, 2, 1, false}, {2, 2, 1, true},
      {1, 1, 2, false}, {2, 1, 2, false}, {2, 1, 2, true},  {1, 2, 2, false}, {2, 2, 2, true}};
  return all;
}

// The first three layers are one tensor-parallel block.
nn::Sequential make_net(Communicator* tensor) {
  manual_seed(1);
  if (!tensor)
    return nn::Sequential(nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 5), nn::Tanh(),
                          nn::Linear(5, 3));
  return nn::Sequential(ColumnParallelLinear(6, 8, *tensor, {.gather_output = false}), nn::ReLU(),
                        RowParallelLinear(8, 5, *tensor, {.input_is_parallel = true}), nn::Tanh(),
                        nn::Linear(5, 3));
}

struct Batch {
  Tensor x, y;
};
Batch batch_of(int step) {
  Generator generator(static_cast<std::uint64_t>(step + 1));
  const Tensor x = randn({kRows, 6}, {}, generator);
  return {x, randint(0, 3, {kRows}, generator)};
}

std::unique_ptr<nn::Optimizer> make_sgd(const std::vector<Tensor>& parameters) {
  return std::make_unique<nn::SGD>(parameters, kSgd);
}

struct Reference {
  std::vector<double> norms;
  nn::StateDict parameters;
};

// One device. A skipped step changes nothing.
Reference train_alone(bool is_clipped, bool skips) {
  nn::Sequential net = make_net(nullptr);
  nn::SGD optimizer(net.parameters(), kSgd);
  Reference result;
  for (int step = 0; step < kSteps; ++step) {
    if (skips && step == kBadStep) continue;
    const Batch batch = batch_of(step);
    optimizer.zero_grad();
    cross_entropy(net(batch.x), batch.y).backward();
    if (is_clipped) result.norms.push_back(nn::clip_grad_norm(optimizer.arenas(), kMaxNorm));
    optimizer.step();
  }
  for (const auto& [name, parameter] : net.named_parameters())
    result.parameters[name] = clone(parameter.detach());
  return result;
}

// A rank's part of the model in a mixture.
class Part {
 public:
  Part(Communicator& world, const Mixture& mixture, nn::GradScaler* scaler)
      : mesh_(world,
              {{"data", mixture.data}, {"pipeline", mixture.pipeline}, {"tensor", mixture.tensor}}),
        data_(mesh_.axis("data")),
        gradients_(world) {
    nn::Sequential net = make_net(mixture.tensor > 1 ? &mesh_.axis("tensor") : nullptr);
    Communicator& pipeline = mesh_.axis("pipeline");
    if (mixture.pipeline > 1) {
      stages_ = nn::Sequential::split(std::move(net), {0, 3});
      PipelineOptions options;
      if (!mixture.is_sharded && mixture.data > 1) options.replicas = &data_;
      pipeline_.emplace(
          stages_, pipeline, one_forward_one_backward(2, 2),
          [scaler](const Tensor& y, const Tensor& target) {
            const Tensor loss = cross_entropy(y, target);
            return scaler ? scaler->scale(loss) : loss;
          },
          options);
      gradients_.add("model", *pipeline_);
    } else {
      stages_.push_back(std::move(net));
      gradients_.add("model", own());
      if (!mixture.is_sharded && mixture.data > 1) replica_.emplace(own(), data_);
    }
    if (mixture.is_sharded) {
      sharded_.emplace(own(), data_, [](const auto& parameters) {
        return std::make_unique<nn::SGD>(parameters, kSgd);
      });
      gradients_.add(*sharded_);
    } else {
      optimizer_.emplace(own().parameters(), kSgd);
    }
    scaler_ = scaler;
  }

  nn::Sequential& own() {
    return stages_[pipeline_ ? static_cast<std::size_t>(mesh_.axis("pipeline").rank()) : 0];
  }
  ModelGradients& gradients() { return gradients_; }

  void backward(int step, bool by_module = false) {
    const Batch all = batch_of(step);
    const std::int64_t share = kRows / data_.world_size(), begin = data_.rank() * share;
    const Tensor x = slice(all.x, 0, begin, begin + share),
                 y = slice(all.y, 0, begin, begin + share);
    if (optimizer_ || by_module) own().zero_grad();
    if (pipeline_) {
      pipeline_->train_step(x, y);
      return;
    }
    const Tensor loss = cross_entropy(replica_ ? (*replica_)(x) : own()(x), y);
    (scaler_ ? scaler_->scale(loss) : loss).backward();
  }

  void step() { sharded_ ? sharded_->step() : optimizer_->step(); }
  std::vector<ModelGradients::AnyOptimizer> optimizers() {
    if (sharded_) return {&*sharded_};
    return {&*optimizer_};
  }

  void expect_parameters(const nn::StateDict& expected) {
    std::map<const TensorImpl*, const ParallelLinear*> layers;
    own().visit([&](const std::string&, nn::Module& module) {
      if (auto* const layer = dynamic_cast<ParallelLinear*>(&module))
        for (const Tensor& part : layer->parameters()) layers[part.impl()] = layer;
    });
    for (const auto& [name, parameter] : own().named_parameters()) {
      SCOPED_TRACE(name);
      const auto layer = layers.find(parameter.impl());
      const Tensor& whole = expected.at(name);
      const bool is_part = layer != layers.end() && layer->second->split_axis(parameter) >= 0;
      expect_close(parameter.detach(), is_part ? layer->second->part_of(whole) : whole, 64);
    }
    EXPECT_TRUE(replicas_identical(own(), data_));
  }

 private:
  Mesh mesh_;
  Communicator& data_;
  std::vector<nn::Sequential> stages_;
  std::optional<Pipeline> pipeline_;
  std::optional<DistributedDataParallel> replica_;
  std::optional<ShardedOptimizer> sharded_;
  std::optional<nn::SGD> optimizer_;
  ModelGradients gradients_;
  nn::GradScaler* scaler_ = nullptr;
};

TEST(ModelGradientsTest, NormAndParametersAreThoseOfOneDevice) {
  const Reference reference = train_alone(true, false);
  for (const Mixture& mixture : mixtures()) {
    SCOPED_TRACE(text_of(mixture));
    run_ranks(mixture.num_ranks(), [&](Communicator& comm) {
      Part part(comm, mixture, nullptr);
      for (int step = 0; step < kSteps; ++step) {
        part.backward(step);
        const double norm = part.gradients().clip_norm(kMaxNorm);
        const double expected = reference.norms[static_cast<std::size_t>(step)];
        EXPECT_GT(norm, kMaxNorm);
        EXPECT_NEAR(norm, expected, 1e-5 * expected);
        part.step();
      }
      part.expect_parameters(reference.parameters);
    });
  }
}

// In one step the gradients of one rank's part become infinite, on the last rank. The step uses up
// averages, so a sharded optimizer needs no zero_grad(). So does a norm that is refused.
TEST(ModelGradientsTest, AnInfinityOnOneRankSkipsTheStepOnAll) {
  const Reference reference = train_alone(false, true);
  for (const Mixture& mixture : mixtures())
    for (const int way : {0, 1, 2, 3}) {
      SCOPED_TRACE(concat(text_of(mixture), ", ", way));
      const bool clips = way / 2 == 1, by_module = way % 2 == 1;
      run_ranks(mixture.num_ranks(), [&](Communicator& comm) {
        nn::GradScaler scaler({.initial_scale = 1024});
        Part part(comm, mixture, &scaler);
        for (int step = 0; step < kSteps; ++step) {
          part.backward(step, by_module);
          const bool is_bad = step == kBadStep;
          if (is_bad && comm.rank() == comm.world_size() - 1)
            fill_(part.own().parameters().front().grad(), by_module ? NAN : INFINITY);
          if (is_bad && clips) {
            EXPECT_THROW(part.gradients().clip_norm(1), ValueError);
            scaler.report(false);
          } else {
            EXPECT_EQ(part.gradients().step(scaler, part.optimizers()), !is_bad);
          }
          scaler.update();
          EXPECT_EQ(scaler.scale(), step < kBadStep ? 1024 : 512);
        }
        part.expect_parameters(reference.parameters);
      });
    }
}

TEST(ModelGradientsTest, ANormThatIsNotFiniteIsRefusedOnAllRanks) {
  for (const Mixture& mixture : mixtures()) {
    SCOPED_TRACE(text_of(mixture));
    run_ranks(mixture.num_ranks(), [&](Communicator& comm) {
      Part part(comm, mixture, nullptr);
      part.backward(0);
      // Also where another rank counts it.
      if (comm.rank() == comm.world_size() - 1) fill_(part.own().parameters().back().grad(), NAN);
      expect_throws<ValueError>([&] { part.gradients().clip_norm(1); }, "must be finite; got");
      EXPECT_THROW(part.gradients().clip_norm(0), ValueError);
    });
  }
}

TEST(ModelGradientsTest, TiedParametersCountOnce) {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(3);
    nn::Linear down(4, 4), up(4, 4);
    std::vector<nn::Module*> stages = {&down, &up};
    PipelineOptions options;
    options.tied = {{{0, "weight"}, {1, "weight"}}};
    Pipeline pipeline(
        stages, comm, gpipe(2, 2),
        [](const Tensor& y, const Tensor& target) { return mean(square(y - target)); }, options);
    const Tensor x = ones({4, 4});
    pipeline.train_step(x, x * 3);
    ModelGradients gradients(comm);
    gradients.add("model", pipeline);
    const nn::Linear& own = comm.rank() == 0 ? down : up;
    double squares = sum(square(own.bias.grad())).item<double>();
    if (comm.rank() == 0) squares += sum(square(own.weight.grad())).item<double>();
    const Tensor all = full({1}, squares, {.dtype = DType::float64});
    comm.all_reduce(all);
    const double norm = gradients.clip_norm(1e-3);
    EXPECT_NEAR(norm / std::sqrt(all.item<double>()), 1, 1e-6);
    EXPECT_NEAR(gradients.clip_norm(1), 1e-3, 1e-9);  // both copies of the weight were scaled
    const Tensor first = clone(own.weight.grad());
    comm.broadcast(first);
    testing::expect_same_bits(first, own.weight.grad());
  });
}

TEST(ModelGradientsTest, FrozenAndUnusedParametersDoNotCount) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net(nullptr);
    DistributedDataParallel replica(net, comm);
    ModelGradients gradients(comm);
    gradients.add("model", net);
    sum(net.parameters().front() * 2).backward();
    EXPECT_NEAR(gradients.clip_norm(INFINITY), 2 * std::sqrt(48), 1e-5);
    net.parameters().front().set_requires_grad(false);
    EXPECT_EQ(gradients.clip_norm(1), 0);
  });
}

// What sees a part of the gradients takes none of them for the whole.
TEST(ModelGradientsTest, OtherCallsRefuseParts) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net(&comm);
    nn::SGD optimizer(net.parameters(), kSgd);
    sum(net(ones({2, 6}))).backward();
    const std::string part = "weight of ColumnParallelLinear, of which each rank has a slice";
    expect_throws<ValueError>([&] { nn::clip_grad_norm(net.parameters(), 1); }, part);
    expect_throws<ValueError>([&] { nn::clip_grad_norm(optimizer.arenas(), 1); }, part);
    nn::GradScaler scaler;
    expect_throws<ValueError>([&] { scaler.step(optimizer); }, part);
    ModelGradients none(comm);
    expect_throws<ValueError>([&] { none.step(scaler, {&optimizer}); }, "that is not");
    expect_throws<ValueError>([&] { nn::Muon muon({net.parameters()[0]}); },
                              "Muon: matrices must be whole on this rank; got " + part);
    expect_throws<ValueError>([&] { nn::LBFGS lbfgs(net.parameters()); }, "LBFGS: parameters");
    // A bias of RowParallelLinear is whole.
    EXPECT_GT(nn::clip_grad_norm({net.parameters()[3]}, 1), 0);
  });
  run_ranks(2, [](Communicator& comm) {
    auto stages = nn::Sequential::split(make_net(nullptr), {0, 3});
    Pipeline pipeline(stages, comm, gpipe(2, 2), [](const Tensor& y, const Tensor& target) {
      return cross_entropy(y, target);
    });
    nn::SGD optimizer(pipeline.parameters(), kSgd);
    nn::GradScaler scaler;
    const std::string stage = concat("stage ", comm.rank(), "'s ");
    expect_throws<ValueError>([&] { nn::clip_grad_norm(pipeline.parameters(), 1); }, stage);
    expect_throws<ValueError>([&] { scaler.step(optimizer); }, stage);
    const nn::Muon whole_matrices({pipeline.parameters()[0]});
    // Sharded over one rank each, and yet one rank's share of the model.
    const auto alone = comm.split(comm.rank());
    ShardedOptimizer sharded(stages[static_cast<std::size_t>(comm.rank())], *alone, make_sgd);
    expect_throws<ValueError>([&] { sharded.clip_grad_norm(1); }, stage);
    // A group without the other stage's rank, and a stage that is added as a module.
    ModelGradients missing(*alone), as_module(comm);
    missing.add("model", pipeline);
    missing.add(sharded);
    expect_throws<ValueError>([&] { missing.clip_norm(1); }, "model's stages of 2 elements");
    as_module.add("model", stages[static_cast<std::size_t>(comm.rank())]);
    expect_throws<ValueError>([&] { as_module.clip_norm(1); }, "must be added themselves");
  });
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net(nullptr);
    ShardedOptimizer sharded(net, comm, make_sgd);
    sum(net(ones({2, 6}))).backward();
    const std::string summand = "0.weight of ShardedOptimizer, which is averaged over the ranks";
    expect_throws<ValueError>([&] { nn::clip_grad_norm(net.parameters(), 1); }, summand);
    expect_throws<ValueError>([&] { nn::clip_grad_norm(sharded.arenas(), 1); }, summand);
    ModelGradients gradients(comm);
    expect_throws<ValueError>([&] { gradients.add(sharded); }, "must be added before");
    gradients.add("model", net);
    expect_throws<ValueError>([&] { gradients.clip_norm(1); }, summand);
    gradients.add(sharded);
    EXPECT_GT(gradients.clip_norm(1), 0);
    expect_throws<ValueError>([&] { gradients.add(sharded); }, "once");
  });
}

TEST(ModelGradientsTest, APipelineRefusesWhatItsRanksSeeInPart) {
  expect_throws<ValueError>(
      [] {
        run_ranks(4, [](Communicator& comm) {
          const auto line = comm.split(comm.rank() / 2), replicas = comm.split(comm.rank() % 2);
          auto stages = nn::Sequential::split(make_net(nullptr), {0, 3});
          Pipeline pipeline(stages, *line, gpipe(2, 2), [](const Tensor& y, const Tensor& target) {
            return cross_entropy(y, target);
          });
          ShardedOptimizer sharded(stages[static_cast<std::size_t>(line->rank())], *replicas,
                                   make_sgd);
          const Batch batch = batch_of(0);
          pipeline.train_step(batch.x, batch.y);
          pipeline.clip_grad_norm(1);
        });
      },
      "of ShardedOptimizer, which is averaged over the ranks in step()");
}

// Once the schemes are gone, the parameters are ordinary ones.
TEST(ModelGradientsTest, MarksEndWithTheirScheme) {
  run_ranks(2, [](Communicator& comm) {
    nn::Linear net(40, 3);
    {
      ShardedOptimizer sharded(net, comm, make_sgd);
      EXPECT_THROW(nn::clip_grad_norm(net.parameters(), 1), ValueError);
    }
    sum(net(ones({1, 40}))).backward();
    EXPECT_GT(nn::clip_grad_norm(net.parameters(), 1), 0);
  });
}

}  // namespace
}  // namespace ringrad
