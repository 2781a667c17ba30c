// The reference is the same network on one rank, with nn::Linear in place of its parallel layers.

#include "ringrad/parallel/train/tensor/tensor_parallel.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/transfer.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/mesh.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;

constexpr int kWorldSizes[] = {1, 2, 4};

// Two ranks are also run with a GPU each.
void on_ranks(int n, const std::function<void(Communicator&)>& body) {
  n == 2 ? testing::run_ranks_on_devices(n, body) : run_ranks(n, body);
}

constexpr std::int64_t kIn = 6, kHidden = 8, kOut = 5;

// What lies between the layers: split, or joined and split again.
enum class Between { split, whole };

nn::Sequential parallel_net(Communicator& comm, Between between = Between::split,
                            bool bias = true) {
  const bool is_split = between == Between::split;
  return nn::Sequential(
      ColumnParallelLinear(kIn, kHidden, comm, {.bias = bias, .gather_output = !is_split}),
      nn::ReLU(),
      RowParallelLinear(kHidden, kOut, comm, {.bias = bias, .input_is_parallel = is_split}));
}

nn::Sequential whole_net(bool bias = true) {
  return nn::Sequential(nn::Linear(kIn, kHidden, bias), nn::ReLU(),
                        nn::Linear(kHidden, kOut, bias));
}

// Both from the same random numbers.
struct Pair {
  nn::Sequential parallel, whole;

  explicit Pair(Communicator& comm, Between between = Between::split, bool bias = true)
      : parallel((manual_seed(1), parallel_net(comm, between, bias))),
        whole((manual_seed(1), whole_net(bias))) {}
};

// The gradients of all parallel layers, assembled from all ranks' parts, by the parameters' names.
nn::StateDict whole_gradients(nn::Module& net) {
  nn::StateDict gradients;
  net.visit([&](const std::string& path, nn::Module& module) {
    if (auto* const layer = dynamic_cast<ParallelLinear*>(&module))
      for (const auto& [name, part] : layer->named_parameters())
        gradients[path + '.' + name] = layer->whole_of(part.grad());
  });
  return gradients;
}

// Whole numbers so small that no sum is rounded.
Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  return to(randint(-4, 4, shape, generator), DType::float32);
}

// --- Equal to one rank ---

TEST(TensorParallelTest, BeginsWithTheNumbersOfNnLinear) {
  for (const int n : kWorldSizes)
    on_ranks(n, [](Communicator& comm) {
      Pair nets(comm);
      const nn::StateDict expected = nets.whole.state_dict(),
                          actual = whole_state_dict(nets.parallel);
      EXPECT_EQ(actual.size(), 4U);
      for (const auto& [name, tensor] : expected)
        expect_same_bits(actual.at(name).detach(), tensor.detach());
      const Tensor next = rand({1});  // the generator ends in the same state
      manual_seed(1);
      whole_net();
      expect_same_bits(next, rand({1}));
    });
}

TEST(TensorParallelTest, IsExactWhereNoSumIsRounded) {
  for (const int n : kWorldSizes)
    for (const Between between : {Between::split, Between::whole})
      for (const bool bias : {true, false})
        on_ranks(n, [&](Communicator& comm) {
          Pair nets(comm, between, bias);
          nn::StateDict values;
          for (const auto& [name, tensor] : nets.whole.state_dict())
            values[name] = numbers(tensor.shape(), values.size());
          nets.whole.load_state_dict(values);
          load_whole_state_dict(nets.parallel, values);
          const Tensor x = numbers({3, 7, kIn}, 10).set_requires_grad(),
                       same_x = x.detach().set_requires_grad(), grad = numbers({3, 7, kOut}, 11);
          const Tensor y = nets.parallel(same_x), expected = nets.whole(x);
          expect_same_bits(y.detach(), expected.detach());
          y.backward(grad);
          expected.backward(grad);
          expect_same_bits(same_x.grad(), x.grad());
          const nn::StateDict gradients = whole_gradients(nets.parallel);
          for (const auto& [name, parameter] : nets.whole.named_parameters())
            expect_same_bits(gradients.at(name), parameter.grad());
        });
}

// Any numbers, each layer alone, and without the fused activation.
TEST(TensorParallelTest, EachLayerIsAnNnLinearUpToRounding) {
  for (const int n : kWorldSizes)
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      on_ranks(n, [&](Communicator& comm) {
        Pair nets(comm, Between::whole);
        nets.parallel.to(dtype);
        nets.whole.to(dtype);
        testing::Random random(7);
        const Tensor x = random.tensor({5, kIn}, dtype).set_requires_grad(),
                     same_x = x.detach().set_requires_grad(),
                     grad = random.tensor({5, kOut}, dtype);
        const Tensor y = nets.parallel(same_x), expected = nets.whole(x);
        expect_close(y, expected, 64);
        y.backward(grad);
        expected.backward(grad);
        expect_close(same_x.grad(), x.grad(), 64);
        const nn::StateDict gradients = whole_gradients(nets.parallel);
        for (const auto& [name, parameter] : nets.whole.named_parameters())
          expect_close(gradients.at(name), parameter.grad(), 64);
      });
}

TEST(TensorParallelTest, GradientsAgreeWithDifferences) {
  for (const int n : kWorldSizes)
    run_ranks(n, [](Communicator& comm) {
      manual_seed(1);
      nn::Sequential net(ColumnParallelLinear(kIn, kHidden, comm, {.gather_output = false}),
                         nn::Tanh(),
                         RowParallelLinear(kHidden, kOut, comm, {.input_is_parallel = true}));
      net.to(DType::float64);
      const Tensor x = testing::Random(5).tensor({3, kIn}, DType::float64).set_requires_grad();
      const auto f = [&](const std::vector<Tensor>& inputs) { return net(inputs[0]); };
      EXPECT_EQ(gradient_check(f, {x}), "");
      EXPECT_EQ(gradient_gradient_check(f, {x}), "");
    });
}

TEST(TensorParallelTest, AutocastComputesWhatNnLinearDoes) {
  run_ranks(2, [](Communicator& comm) {
    Pair nets(comm);
    const Autocast mixed(DType::bfloat16);
    const Tensor x = testing::Random(7).tensor({5, kIn});
    const Tensor y = nets.parallel(x);
    EXPECT_EQ(y.dtype(), DType::bfloat16);
    expect_close(y, nets.whole(x), 64);
  });
}

// --- Training, with replicas ---

// Trains on a mesh of data x tensor, each on its part of the global batches.
nn::StateDict train(Communicator& comm, int tensor, Overlap overlap) {
  const Mesh mesh(comm, {{"data", comm.world_size() / tensor}, {"tensor", tensor}});
  Communicator& replicas = mesh.axis("data");
  manual_seed(1);
  nn::Sequential net = parallel_net(mesh.axis("tensor"));
  DistributedDataParallel model(net, replicas, {.bucket_bytes = 64, .overlap = overlap});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Generator generator(2);
  for (int step = 0; step < 6; ++step) {
    const Tensor x = randn({8, kIn}, {}, generator), y = randint(0, kOut, {8}, generator);
    const auto own = [&](const Tensor& batch) {
      return chunk(batch, replicas.world_size())[static_cast<std::size_t>(replicas.rank())];
    };
    optimizer.zero_grad();
    cross_entropy(model(own(x)), own(y)).backward();
    optimizer.step();
    EXPECT_TRUE(replicas_identical(net, replicas));
  }
  const Tensor bias = net.state_dict().at("2.bias").detach(), of_rank_0 = clone(bias);
  comm.broadcast(of_rank_0);
  expect_same_bits(bias, of_rank_0);  // whole on every rank
  nn::StateDict state;
  for (const auto& [name, parameter] : whole_state_dict(net))
    state[name] = to_host(clone(parameter.detach()));
  return state;
}

void expect_close(const nn::StateDict& actual, const nn::StateDict& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    expect_close(actual.at(name), tensor, 64);
  }
}

TEST(TensorParallelTest, ReplicasOfPartsTrainAsOneRankDoes) {
  nn::StateDict expected;
  run_ranks(1, [&](Communicator& comm) { expected = train(comm, 1, Overlap::never); });
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    for (const auto& [world_size, tensor] :
         {std::pair(2, 2), std::pair(4, 2), std::pair(4, 4), std::pair(4, 1)})
      run_ranks(world_size, [&, tensor = tensor](Communicator& comm) {
        expect_close(train(comm, tensor, overlap), expected);
      });
  testing::run_ranks_on_devices(
      4, [&](Communicator& comm) { expect_close(train(comm, 2, Overlap::automatic), expected); });
}

// --- Errors ---

TEST(TensorParallelTest, FeaturesMustBeAMultipleOfTheRanks) {
  run_ranks(4, [](Communicator& comm) {
    expect_throws<ValueError>(
        [&] { ColumnParallelLinear(4, 6, comm); },
        "ColumnParallelLinear: the output features must be a multiple of the ranks; got 6 features "
        "and 4 ranks");
    expect_throws<ValueError>([&] { RowParallelLinear(6, 4, comm); },
                              "RowParallelLinear: the input features must be a multiple of");
    expect_throws<ValueError>([&] { RowParallelLinear(0, 4, comm); }, "must be positive");
    ColumnParallelLinear(6, 4, comm);  // nothing is broken
  });
}

TEST(TensorParallelTest, RanksMustMakeTheSameLayer) {
  run_ranks(2, [](Communicator& comm) {
    const bool differs = comm.rank() == 1;
    expect_throws<CollectiveError>(
        [&] { ColumnParallelLinear(4, differs ? 8 : 4, comm); },
        "ColumnParallelLinear: all ranks must make the layer of rank 0, from the same random "
        "numbers; different on rank 1");
    expect_throws<CollectiveError>(
        [&] { RowParallelLinear(4, 4, comm, {.bias = differs}); },
        differs ? "\"4 to 4 with bias\" and \"4 to 4 without bias\"" : "different on rank 1");
    expect_throws<CollectiveError>(
        [&] { RowParallelLinear(4, 4, comm, {.input_is_parallel = differs}); }, "on rank 1");
    if (differs) rand({1});
    expect_throws<CollectiveError>(
        [&] { ColumnParallelLinear(4, 4, comm); },
        differs ? "\"generator of seed 0 at 1\" and \"generator of seed 0 at 0\""
                : "different on rank 1");
  });
}

TEST(TensorParallelTest, AWrongInputIsRefusedAsByNnLinear) {
  run_ranks(2, [](Communicator& comm) {
    Pair nets(comm);
    const char* const text = "must share K";
    expect_throws<ShapeError>([&] { nets.whole(ones({2, kIn + 2})); }, text);
    expect_throws<ShapeError>([&] { nets.parallel(ones({2, kIn + 2})); }, text);
    RowParallelLinear row(kHidden, kOut, comm);
    expect_throws<ShapeError>([&] { row(ones({2, kHidden + 2})); }, text);
    expect_throws<ShapeError>([&] { row(ones({2, kHidden + 1})); }, "a multiple of the ranks");
  });
}

TEST(TensorParallelTest, AWrongInputOnOneRankEndsAll) {
  expect_throws<ShapeError>(
      [] {
        run_ranks(4, [](Communicator& comm) {
          const Mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
          nn::Sequential net = parallel_net(mesh.axis("tensor"));
          for (int step = 0; step < 3; ++step)
            net(ones({2, comm.rank() == 2 && step == 1 ? kIn + 1 : kIn}));
          comm.barrier();
        });
      },
      "rank 2: linear: x (..., K)");
}

// Each rank in turn fails, while streams reduce on one axis and layers communicate on the other,
// with no deadline near.
TEST(TensorParallelTest, LayersThatAreCalledInAnotherOrderAreNamed) {
  for (const bool in_backward : {false, true}) {
    std::string messages[2];
    run_ranks(2, [&](Communicator& comm) {
      RowParallelLinear a(4, 3, comm), b(4, 3, comm);
      const Tensor x = ones({2, 4}).set_requires_grad(), z = ones({2, 4}).set_requires_grad();
      const bool swaps = comm.rank() == 1;
      try {
        const Tensor first = (swaps && !in_backward ? b : a)(x);
        const Tensor second = (swaps && !in_backward ? a : b)(z);
        sum(swaps ? second : first).backward();
        sum(swaps ? first : second).backward();
      } catch (const CollectiveError& error) {
        messages[comm.rank()] = error.what();
      }
    });
    for (const std::string& message : messages)
      EXPECT_NE(message.find(" for the RowParallelLinear of "), std::string::npos) << message;
  }
}

TEST(TensorParallelTest, AFailureInTrainingEndsAll) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    for (int culprit = 0; culprit < 4; ++culprit)
      expect_throws<ValueError>(
          [&] {
            run_ranks(4,
                      [&](Communicator& comm) {
                        const Mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
                        nn::Sequential net = parallel_net(mesh.axis("tensor"));
                        DistributedDataParallel model(net, mesh.axis("data"),
                                                      {.bucket_bytes = 64, .overlap = overlap});
                        for (int step = 0;; ++step) {
                          const Tensor loss = sum(model(ones({2, kIn})));
                          RINGRAD_CHECK(comm.rank() != culprit || step < 3, ValueError,
                                        Where::current(), "test: boom");
                          loss.backward();
                        }
                      },
                      {.deadline = std::chrono::hours(1)});
          },
          concat("rank ", culprit, ": test: boom"));
}

// --- State ---

TEST(TensorParallelTest, StateIsThatOfTheWholeModel) {
  run_ranks(2, [](Communicator& comm) {
    Pair nets(comm);
    nets.whole.load_state_dict(nn::StateDict(whole_net().state_dict()));  // other numbers
    load_whole_state_dict(nets.parallel, nets.whole.state_dict());
    for (const auto& [name, tensor] : whole_state_dict(nets.parallel))
      expect_same_bits(tensor.detach(), nets.whole.state_dict().at(name).detach());

    nn::Linear one(4, 6);
    ColumnParallelLinear alone(4, 6, comm);
    load_whole_state_dict(alone, one.state_dict());
    expect_same_bits(alone.whole_of(alone.weight).detach(), one.weight.detach());
    expect_same_bits(alone.weight.detach(),
                     chunk(one.weight.detach(), 2)[comm.rank() == 0 ? 0 : 1]);
  });
}

TEST(TensorParallelTest, StateOfAnotherModelIsRefused) {
  run_ranks(2, [](Communicator& comm) {
    Pair nets(comm);
    nn::StateDict state = nets.whole.state_dict();
    const nn::StateDict parts = nets.parallel.state_dict();
    expect_throws<ShapeError>([&] { load_whole_state_dict(nets.parallel, parts); },
                              "load_whole_state_dict: 0.weight must be (8, 6); got (4, 6)");
    state.erase("2.weight");
    expect_throws<ValueError>([&] { load_whole_state_dict(nets.parallel, state); }, "2.weight");
  });
}

TEST(TensorParallelTest, SaysWhatItIs) {
  run_ranks(2, [](Communicator& comm) {
    std::ostringstream text;
    text << parallel_net(comm, Between::split, /*bias=*/false);
    EXPECT_EQ(text.str(),
              concat("Sequential\n  0: ColumnParallelLinear(6, 8, no bias, part ", comm.rank(),
                     " of 2)\n  1: ReLU()\n"
                     "  2: RowParallelLinear(8, 5, no bias, part ",
                     comm.rank(), " of 2)"));
  });
}

}  // namespace
}  // namespace ringrad
