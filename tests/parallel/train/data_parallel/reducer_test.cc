// The reducer's decisions: when buckets are reduced, what they overlap with, and which gradients
// count. The reference is a reduction on the computing thread, in the order of the arena.

#include "ringrad/parallel/train/data_parallel/reducer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/trace.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using Options = DistributedDataParallelOptions;

nn::Sequential small_net() {
  return nn::Sequential(nn::Linear(16, 12), nn::ReLU(), nn::Linear(12, 12), nn::ReLU(),
                        nn::Linear(12, 4));
}

// The parameters of a network that `comm` trains in three steps on its own data.
std::vector<Tensor> trained(Communicator& comm, const Options& options) {
  manual_seed(1);
  nn::Sequential net = small_net();
  DistributedDataParallel replica(net, comm, options);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  for (std::uint64_t step = 0; step < 3; ++step) {
    Generator generator(10 * step + static_cast<std::uint64_t>(comm.rank()));
    const Tensor x = randn({4, 16}, {}, generator), y = randint(0, 4, {4}, generator);
    optimizer.zero_grad();
    cross_entropy(replica(x), y).backward();
    optimizer.step();
    EXPECT_TRUE(replicas_identical(net, comm));
  }
  std::vector<Tensor> result;
  for (const Tensor& parameter : net.parameters())
    result.push_back(to(parameter.detach(), Device()));
  return result;
}

std::vector<Tensor> trained_by_threads(int world_size, const Options& options) {
  std::vector<Tensor> result;
  run_ranks(world_size, [&](Communicator& comm) {
    auto own = trained(comm, options);
    if (comm.rank() == 0) result = std::move(own);
  });
  return result;
}

void expect_all_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) expect_same_bits(a[i], b[i]);
}

TEST(ReducerTest, OverlapChangesNoBit) {
  for (const int world_size : {2, 3, 4}) {
    SCOPED_TRACE(world_size);
    const auto reference = trained_by_threads(world_size, {.overlap = Overlap::never});
    for (const std::int64_t bytes : {1, 700, 1 << 20})
      expect_all_same_bits(
          trained_by_threads(world_size, {.bucket_bytes = bytes, .overlap = Overlap::always}),
          reference);
  }
}

TEST(ReducerTest, OnGpusOverlapChangesNoBit) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "needs two GPUs";
  const auto trained_on_gpus = [](Overlap overlap) {
    std::vector<Tensor> result;
    run_ranks(2, [&](Communicator& comm) {
      const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank()));
      auto own = trained(comm, {.bucket_bytes = 700, .overlap = overlap});
      if (comm.rank() == 0) result = std::move(own);
    });
    return result;
  };
  expect_all_same_bits(trained_on_gpus(Overlap::always), trained_on_gpus(Overlap::never));
}

TEST(ReducerTest, OverNcclRanksComputeWhatTheyDoOverOurs) {
  if (num_cuda_devices() < 2 || !is_cuda_simulated()) GTEST_SKIP() << "needs two simulated GPUs";
  testing::use_mock_nccl();
  std::vector<Tensor> over_nccl;
  testing::run_nccl_ranks(2, [&](Communicator& comm) {
    auto own = trained(comm, {.bucket_bytes = 700});
    if (comm.rank() == 0) over_nccl = std::move(own);
  });
  const auto reference = trained_by_threads(2, {});
  ASSERT_EQ(over_nccl.size(), reference.size());
  for (std::size_t i = 0; i < reference.size(); ++i)
    testing::expect_close(over_nccl[i], reference[i], 1 << 14);
}

// Two halves that are called in another order than they are registered in; neither need be used.
struct TwoHalves : nn::Module {
  nn::Sequential& late = child("late", half());
  nn::Sequential& early = child("early", half());
  bool uses_late = true;

  static nn::Sequential half() {
    nn::Sequential layers;
    for (int i = 0; i < 6; ++i) layers.append(nn::Linear(8, 8));
    return layers;
  }
  Tensor forward(const Tensor& x, Where) override {
    const Tensor y = early(x);
    return uses_late ? late(y) : y;
  }
};

TEST(ReducerTest, BucketsFollowTheOrderInWhichGradientsCome) {
  struct Reversed : nn::Module {
    nn::Sequential& second = child("second", TwoHalves::half());
    nn::Sequential& first = child("first", TwoHalves::half());
    Tensor forward(const Tensor& x, Where) override { return second(first(x)); }
  };
  run_ranks(2, [](Communicator& comm) {
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      Reversed net;
      std::vector<std::string> order;
      DistributedDataParallel replica(
          net, comm, {.bucket_bytes = 280, .first_bucket_bytes = 280, .overlap = overlap});
      replica.set_communication_hook(
          [&](const GradientBucket& bucket, CommunicationStream& stream) {
            order.push_back(
                bucket.parameters.front().name.substr(0, bucket.parameters.front().name.find('.')));
            return stream.run("average", [gradients = bucket.gradients](Communicator& on_stream) {
              on_stream.all_reduce(gradients, ReduceOp::mean);
            });
          });
      sum(replica(ones({2, 8}))).backward();
      EXPECT_EQ(order.front(), "first") << "nobody knows better yet";
      EXPECT_TRUE(replica.summary().follows_arrival);
      order.clear();
      sum(replica(ones({2, 8}))).backward();
      EXPECT_EQ(order.front(), "second");
      EXPECT_EQ(order.back(), "first");
    }
  });
}

TEST(ReducerTest, AnEmptyHookAveragesAsThereWasNone) {
  run_ranks(2, [](Communicator& comm) {
    TwoHalves net;
    DistributedDataParallel replica(net, comm);
    replica.set_communication_hook(
        [](const GradientBucket&, CommunicationStream&) { return Work(); });
    replica.set_communication_hook({});
    sum(replica(full({2, 8}, comm.rank()))).backward();
    nn::SGD(net.parameters(), {.learning_rate = 0.1}).step();
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

TEST(ReducerTest, ParametersThatAPassLeavesOutAreNamed) {
  run_ranks(2, [](Communicator& comm) {
    TwoHalves net;
    net.uses_late = false;
    DistributedDataParallel replica(net, comm, {.bucket_bytes = 600});
    sum(replica(ones({2, 8}))).backward();
    const auto summary = replica.summary();
    EXPECT_EQ(summary.unused.size(), 12u);
    EXPECT_EQ(summary.unused.front(), "late.0.weight");
    std::ostringstream text;
    text << summary;
    EXPECT_NE(text.str().find("not reached: late.0.weight, late.0.bias"), text.str().npos)
        << text.str();
  });
}

TEST(ReducerTest, WithoutAllowUnusedTheyAreAnError) {
  expect_throws<AutogradError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          TwoHalves net;
          net.uses_late = comm.rank() == 0;
          DistributedDataParallel replica(net, comm, {.allow_unused = false});
          sum(replica(ones({2, 8}))).backward();
        });
      },
      "on rank 1 it did not reach late.0.weight, late.0.bias");
}

TEST(ReducerTest, AStaticGraphDoesNotCommunicateWhatNoRankReaches) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    run_ranks(2, [&](Communicator& comm) {
      TwoHalves net;
      net.uses_late = false;
      DistributedDataParallel replica(
          net, comm, {.bucket_bytes = 600, .overlap = overlap, .static_graph = true});
      int num_reductions = 0;
      replica.set_communication_hook(
          [&](const GradientBucket& bucket, CommunicationStream& stream) {
            ++num_reductions;
            return stream.run("average", [gradients = bucket.gradients](Communicator& on_stream) {
              on_stream.all_reduce(gradients, ReduceOp::mean);
            });
          });
      sum(replica(ones({2, 8}))).backward();
      EXPECT_EQ(num_reductions, static_cast<int>(replica.num_buckets()));
      num_reductions = 0;
      const Tensor once = kernels::clone(net.early.parameters().front().grad());
      net.zero_grad();
      sum(replica(ones({2, 8}))).backward();
      EXPECT_GT(num_reductions, 0);
      EXPECT_LT(num_reductions, static_cast<int>(replica.num_buckets()));
      expect_same_bits(net.early.parameters().front().grad(), once);
    });
}

TEST(ReducerTest, AStaticGraphThatChangesIsRefusedBothWays) {
  for (const bool first : {true, false})
    expect_throws<AutogradError>(
        [&] {
          run_ranks(2, [&](Communicator& comm) {
            TwoHalves net;
            net.uses_late = first;
            DistributedDataParallel replica(net, comm, {.static_graph = true});
            sum(replica(ones({2, 8}))).backward();
            net.uses_late = !first;
            sum(replica(ones({2, 8}))).backward();
          });
        },
        "with static_graph every pass must reach the same parameters");
}

// One tensor under two names, as an embedding that is also the output layer.
struct Tied : nn::Module {
  nn::Linear& in = child("in", nn::Linear(4, 4));
  Tensor out = parameter("out", in.weight);
  Tensor forward(const Tensor& x, Where) override { return matmul(in(x), out); }
};

TEST(ReducerTest, ASharedParameterIsReducedOnceWithBothItsUses) {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(1);
    Tied net;
    DistributedDataParallel replica(net, comm, {.bucket_bytes = 1, .overlap = Overlap::always});
    const Tensor x = full({2, 4}, comm.rank() + 1);
    sum(replica(x)).backward();
    const Tensor averaged = kernels::clone(net.in.weight.grad());
    std::vector<Tensor> local;
    for (int rank = 0; rank < 2; ++rank) {
      manual_seed(1);
      Tied alone;
      sum(alone(full({2, 4}, rank + 1))).backward();
      local.push_back(alone.in.weight.grad());
    }
    testing::expect_close(averaged, (local[0] + local[1]) * 0.5);
  });
}

TEST(ReducerTest, DtypesMayDifferInsideOfAModel) {
  struct Mixed : nn::Module {
    nn::Linear& single = child("single", nn::Linear(4, 4));
    nn::Linear& twice = child("double", nn::Linear(4, 4));
    Mixed() { twice.to(DType::float64); }
    Tensor forward(const Tensor& x, Where) override {
      return twice(ringrad::to(single(x), DType::float64));
    }
  };
  run_ranks(2, [](Communicator& comm) {
    Mixed net;
    DistributedDataParallel replica(net, comm, {.overlap = Overlap::always});
    EXPECT_EQ(replica.num_buckets(), 2u);
    sum(replica(full({2, 4}, comm.rank()))).backward();
    nn::SGD(net.parameters(), {.learning_rate = 0.1}).step();
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

TEST(ReducerTest, AnErrorBesideBackwardEndsBackwardOnAllRanks) {
  for (const Overlap overlap : {Overlap::never, Overlap::always})
    expect_throws<ValueError>(
        [&] {
          run_ranks(3, [&](Communicator& comm) {
            TwoHalves net;
            DistributedDataParallel replica(net, comm, {.bucket_bytes = 600, .overlap = overlap});
            replica.set_communication_hook(
                [&](const GradientBucket& bucket, CommunicationStream& stream) {
                  return stream.run("failing", [&, gradients = bucket.gradients,
                                                index = bucket.index](Communicator& on_stream) {
                    if (index == 2 && on_stream.rank() == 1)
                      throw ValueError("told to fail", Where::current());
                    on_stream.all_reduce(gradients, ReduceOp::mean);
                  });
                });
            for (;;) sum(replica(ones({2, 8}))).backward();
          });
        },
        "rank 1: told to fail");
}

// The user's hook throws on one rank while buckets are being reduced there and elsewhere.
TEST(ReducerTest, ARankThatLeavesBetweenBucketsEndsTheOthers) {
  expect_throws<ValueError>(
      [] {
        run_ranks(3, [](Communicator& comm) {
          TwoHalves net;
          DistributedDataParallel replica(net, comm,
                                          {.bucket_bytes = 600, .overlap = Overlap::always});
          const Tensor x = ones({2, 8}).set_requires_grad() * 1;
          if (comm.rank() == 2)
            register_hook(x, [](const Tensor&) -> Tensor {
              throw ValueError("told to leave", Where::current());
            });
          sum(net(x)).backward();
          comm.barrier();
        });
      },
      "rank 2: told to leave");
}

TEST(ReducerTest, SummaryCountsPassesAndBytes) {
  run_ranks(2, [](Communicator& comm) {
    TwoHalves net;
    DistributedDataParallel replica(net, comm, {.bucket_bytes = 600, .overlap = Overlap::always});
    for (int pass = 0; pass < 3; ++pass) sum(replica(ones({2, 8}))).backward();
    const CommunicationSummary summary = replica.summary();
    EXPECT_EQ(summary.num_passes, 3);
    EXPECT_TRUE(summary.overlaps);
    EXPECT_EQ(summary.bucket_bytes.size(), replica.num_buckets());
    std::int64_t bytes = 0;
    for (const std::int64_t bucket : summary.bucket_bytes) bytes += bucket;
    EXPECT_GE(bytes, net.num_parameters() * 4);
    EXPECT_GT(summary.communication_s, 0);
    EXPECT_LE(summary.overlap(), 1);
    EXPECT_TRUE(summary.unused.empty());
  });
}

TEST(ReducerTest, ATraceShowsBucketsBesideBackward) {
  const std::string path = ::testing::TempDir() + "reducer_test.json";
  trace_to(path);
  run_ranks(2, [](Communicator& comm) {
    TwoHalves net;
    DistributedDataParallel replica(net, comm, {.bucket_bytes = 600, .overlap = Overlap::always});
    sum(replica(ones({2, 8}))).backward();
  });
  end_trace();
  std::ifstream file(path);
  std::map<std::string, std::set<std::pair<int, int>>> places;  // span -> rank, thread
  for (const nlohmann::json& event : nlohmann::json::parse(file))
    if (event["ph"] == "X") places[event["name"]].emplace(event["pid"], event["tid"]);
  EXPECT_EQ(places["forward"].size(), 2u) << "one per rank";
  EXPECT_EQ(places["backward"], places["forward"]);
  EXPECT_EQ(places["bucket 0"].size(), 2u);
  for (const auto& place : places["bucket 0"])
    EXPECT_FALSE(places["backward"].contains(place)) << "a thread of its own";
}

}  // namespace
}  // namespace ringrad
