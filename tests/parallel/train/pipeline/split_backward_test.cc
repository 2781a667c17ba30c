// Replicas whose backward passes run in two halves.

#include "ringrad/autograd/split_backward.h"

#include <gtest/gtest.h>

#include <functional>

#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/data_parallel.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::Random;

using Tensors = std::vector<Tensor>;

nn::Sequential small_net() {
  manual_seed(4);
  return nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Linear(8, 3));
}

// Of the input, and of the parameters.
Tensors gradients(nn::Module& net, const std::function<Tensor(const Tensor& x)>& forward, int rank,
                  bool split) {
  Random random(static_cast<std::uint64_t>(rank));
  const Tensor x = random.tensor({4, 6}).set_requires_grad(), grad = random.tensor({4, 3});
  Tensors result;
  for (int step = 0; step < 2; ++step) {
    const Tensor y = forward(x);
    if (split) {
      auto [grads, weights] = backward_inputs({&y, 1}, {&grad, 1}, {&x, 1});
      result.push_back(grads[0]);
      weights.accumulate();
    } else {
      y.backward(grad);
      result.push_back(x.grad());
      x.set_grad({});
    }
    for (const Tensor& parameter : net.parameters()) result.push_back(clone(parameter.grad()));
    net.zero_grad();
  }
  return result;
}

void expect_same_bits_each(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) expect_same_bits(actual[i], expected[i]);
}

TEST(SplitBackwardOfReplicasTest, TheSecondHalfIsThePassThatIsReduced) {
  run_ranks(2, [](Communicator& comm) {
    Tensors of[2];
    for (const bool split : {false, true}) {
      nn::Sequential net = small_net();
      synchronize_batch_norm(net, comm);
      DistributedDataParallel replica(net, comm);
      of[split] = gradients(
          net, [&](const Tensor& x) { return replica(x); }, comm.rank(), split);
      EXPECT_EQ(replica.summary().num_passes, 2);
    }
    expect_same_bits_each(of[true], of[false]);
  });
}

TEST(SplitBackwardOfReplicasTest, ReplicasOfOneProcessGiveTheSameBits) {
  Tensors of[2];
  for (const bool split : {false, true}) {
    nn::Sequential net = small_net();
    DataParallel replicas(net, small_net, {default_device(), default_device()});
    of[split] = gradients(
        net, [&](const Tensor& x) { return replicas(x); }, 0, split);
  }
  expect_same_bits_each(of[true], of[false]);
}

}  // namespace
}  // namespace ringrad
