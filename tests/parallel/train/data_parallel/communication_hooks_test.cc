// Properties of all hooks, and the conversion to 16 bits.

#include "ringrad/parallel/train/data_parallel/communication_hooks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/data/synthetic.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::on_every_stream;
using testing::OneBucket;
using testing::same_on_all_ranks;
using Vector = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Vector gradients_of(int rank, std::size_t count) {
  Generator generator(static_cast<std::uint64_t>(rank));
  const Options on_host{.device = Device()};
  const auto n = static_cast<std::int64_t>(count);
  const Tensor scales = exp(randn({n}, on_host, generator) * 2);
  return (randn({n}, on_host, generator) * scales).to_vector<float>();
}

TEST(CompressToTest, IsAsFarFromTheMeanAsRoundingMayBe) {
  constexpr std::size_t kCount = 5000;
  for (const auto& [dtype, u, least] :
       {std::tuple(DType::float16, 0x1p-11, 0x1p-25), std::tuple(DType::bfloat16, 0x1p-8, 0.0)})
    for (const int n : {1, 2, 4})
      on_every_stream(
          n, [&, dtype = dtype, u = u, least = least](Communicator& comm, Overlap overlap) {
            OneBucket bucket(comm, overlap, {kCount}, compress_to(dtype));
            const Vector mean = bucket.reduce(gradients_of(comm.rank(), kCount));
            EXPECT_TRUE(same_on_all_ranks(comm, mean));
            std::vector<double> exact(kCount), sizes(kCount);
            for (int rank = 0; rank < n; ++rank) {
              const Vector theirs = gradients_of(rank, kCount);
              for (std::size_t i = 0; i < kCount; ++i) {
                exact[i] += theirs[i] / static_cast<double>(n);
                sizes[i] += std::abs(theirs[i]) / static_cast<double>(n);
              }
            }
            double largest = 0;
            for (std::size_t i = 0; i < kCount; ++i) {
              const double error = std::abs(mean[i] - exact[i]);
              EXPECT_LE(error, 1.01 * u * (sizes[i] + std::abs(exact[i])) + 2 * least) << i;
              largest = std::max(largest, error / std::abs(exact[i]));
            }
            EXPECT_GT(largest, u / 4) << "nothing was rounded";
          });
}

TEST(CompressToTest, SumsDoNotOverflowWhereTheMeanDoesNot) {
  on_every_stream(4, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {3}, compress_to(DType::float16));
    EXPECT_EQ(bucket.reduce(Vector{60000, -60000, 0x1p-24}), (Vector{60000, -60000, 0x1p-24}));
  });
}

TEST(CompressToTest, WhatIsNotFiniteReachesAllRanksAndNothingElse) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {4}, compress_to(DType::float16));
    const Vector own = comm.rank() == 1 ? Vector{1, std::nanf(""), -kInfinity, 1e6} : Vector(4, 1);
    const Vector mean = bucket.reduce(own);
    EXPECT_EQ(mean[0], 1);
    EXPECT_TRUE(std::isnan(mean[1]));
    EXPECT_EQ(mean[2], -kInfinity);
    EXPECT_EQ(mean[3], kInfinity) << "beyond the range of float16";
  });
}

TEST(CompressToTest, GradientsOf16BitsAreAveragedAsTheyAre) {
  run_ranks(2, [](Communicator& comm) {
    OneBucket bucket(comm, Overlap::never, {1}, compress_to(DType::bfloat16), DType::float16);
    EXPECT_EQ(bucket.reduce(Vector{1 + 0x1p-10}), Vector{1 + 0x1p-10});
  });
}

TEST(CompressToTest, TheDTypeMustBeShort) {
  expect_throws<DTypeError>([] { compress_to(DType::float32); },
                            "must be float16 or bfloat16; got float32");
}

// --- All of them -------------------------------------------------------------------------------

Work clipped(const GradientBucket& bucket, CommunicationStream& stream) {
  return stream.run("clipped", [x = bucket.gradients](Communicator& comm) {
    const NoGradGuard guard;
    copy_(x, clamp(x, -0.05, 0.05));
    comm.all_reduce(x, ReduceOp::mean);
  });
}

const std::pair<const char*, std::function<CommunicationHook()>> kHooks[] = {
    {"none", [] { return CommunicationHook(); }},
    {"float16", [] { return compress_to(DType::float16); }},
    {"bfloat16", [] { return compress_to(DType::bfloat16); }},
    {"top-k", [] { return top_k_compression({.ratio = 0.1}); }},
    {"PowerSGD", [] { return power_sgd({.rank = 2}); }},
    {"a user's own", [] { return CommunicationHook(clipped); }},
};

nn::Sequential make_net() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(),
                        nn::Linear(32, 3));
}

struct Trained {
  std::vector<Vector> parameters;
  double loss = 0;
};

// Each step is two passes over this rank's part of the points; only the second is reduced.
Trained train(Communicator& comm, Overlap overlap, CommunicationHook hook, int num_steps) {
  nn::Sequential net = make_net();
  DistributedDataParallel replica(net, comm, {.bucket_bytes = 1000, .overlap = overlap});
  if (hook) replica.set_communication_hook(std::move(hook));
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.3, .momentum = 0.8});
  const TensorDataset points = blobs(48, 3);
  std::vector<std::int64_t> own[2];
  for (std::int64_t i = comm.rank(); i < points.size(); i += comm.world_size())
    own[own[0].size() > own[1].size()].push_back(i);
  Trained result;
  for (int step = 0; step < num_steps; ++step) {
    optimizer.zero_grad();
    result.loss = 0;
    for (const int part : {0, 1}) {
      std::optional<DistributedDataParallel::NoSync> alone;
      if (part == 0) alone.emplace(replica);
      const Batch batch = points.fetch(own[part]);
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      const Tensor loss = cross_entropy(replica(x), y) / 2;
      loss.backward();
      result.loss += loss.item<double>();
    }
    optimizer.step();
  }
  EXPECT_TRUE(replicas_identical(net, comm));
  for (const Tensor& parameter : net.parameters())
    result.parameters.push_back(parameter.to_vector<float>());
  return result;
}

TEST(CommunicationHooksTest, ReplicasStayIdenticalAndOverlapChangesNoBit) {
  for (const auto& [name, make_hook] : kHooks) {
    SCOPED_TRACE(name);
    std::vector<Vector> reference[2];  // on the CPU, on GPUs
    on_every_stream(2, [&, &make_hook = make_hook](Communicator& comm, Overlap overlap) {
      const auto trained = train(comm, overlap, make_hook(), 4).parameters;
      if (comm.rank() > 0) return;
      auto& expected = reference[default_device().is_cuda()];
      if (expected.empty()) expected = trained;
      EXPECT_EQ(trained, expected);
    });
  }
}

TEST(CommunicationHooksTest, LearnsAboutAsWellAsWithoutCompression) {
  std::map<std::string, double> losses;
  run_ranks(2, [&](Communicator& comm) {
    for (const auto& [name, make_hook] : kHooks) {
      const double loss = train(comm, Overlap::automatic, make_hook(), 60).loss;
      if (comm.rank() == 0) losses[name] = loss;
    }
  });
  EXPECT_LT(losses["none"], 0.02);  // log 3 = 1.1 at first
  losses.erase("a user's own");     // it clips
  for (const auto& [name, loss] : losses) EXPECT_LT(loss, 2 * losses["none"] + 0.01) << name;
}

TEST(CommunicationHooksTest, SixteenBitsAreHalfTheBytes) {
  run_ranks(2, [](Communicator& comm) {
    const auto bytes_of = [&](CommunicationHook hook) {
      const std::size_t before = comm.flight().records().size();
      train(comm, Overlap::never, std::move(hook), 1);
      const auto records = comm.flight().records();
      std::int64_t bytes = 0;
      for (std::size_t i = before; i < records.size(); ++i)
        if (const CollectiveCall& call = records[i].call; call.reduce == ReduceOp::mean)
          bytes += call.count * static_cast<std::int64_t>(size_bytes(call.dtype));
      return bytes;
    };
    const std::int64_t whole = bytes_of({});
    EXPECT_GT(whole, 5000);
    EXPECT_EQ(bytes_of(compress_to(DType::bfloat16)), whole / 2);
  });
}

// --- Errors ------------------------------------------------------------------------------------

// Fails in the second bucket, in the task or before it, on some ranks.
CommunicationHook failing(std::function<bool()> fails, bool in_task) {
  return [=](const GradientBucket& bucket, CommunicationStream& stream) {
    const bool fails_now = bucket.index == 1 && fails();
    const auto fail = [] { throw ValueError("told to fail", Where::current()); };
    if (fails_now && !in_task) fail();
    return stream.run("bucket", [=, x = bucket.gradients](Communicator& comm) {
      if (fails_now) fail();
      comm.all_reduce(x, ReduceOp::mean);
    });
  };
}

Tensor loss_of(DistributedDataParallel& replica, const Communicator& comm) {
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  const Tensor x = randn({4, 2}, {}, generator), y = randint(0, 3, {4}, generator);
  return cross_entropy(replica(x), y);
}

TEST(CommunicationHooksTest, WhenAllFailAlikeTheModelGoesOn) {
  for (const bool in_task : {true, false})
    on_every_stream(2, [in_task](Communicator& comm, Overlap overlap) {
      const auto gradients_after = [&](bool has_failed) {
        nn::Sequential net = make_net();
        DistributedDataParallel replica(net, comm, {.bucket_bytes = 500, .overlap = overlap});
        bool fails = has_failed;
        replica.set_communication_hook(failing([&] { return fails; }, in_task));
        if (has_failed)
          expect_throws<ValueError>([&] { loss_of(replica, comm).backward(); }, "told to fail");
        fails = false;
        net.zero_grad();
        loss_of(replica, comm).backward();
        return net.parameters().front().grad().to_vector<float>();
      };
      EXPECT_EQ(gradients_after(true), gradients_after(false));
    });
}

TEST(CommunicationHooksTest, WhenOneRankFailsTheOthersGetCollectiveErrors) {
  for (const bool in_task : {true, false}) {
    std::atomic<int> num_others = 0, num_failed = 0;
    const auto train_until_failure = [&](Communicator& comm, Overlap overlap) {
      nn::Sequential net = make_net();
      DistributedDataParallel replica(net, comm, {.bucket_bytes = 500, .overlap = overlap});
      bool fails = false;
      replica.set_communication_hook(failing([&] { return fails && comm.rank() == 1; }, in_task));
      try {
        loss_of(replica, comm).backward();
        fails = true;
        loss_of(replica, comm).backward();
        ADD_FAILURE() << "backward must throw";
      } catch (const ValueError&) {
        ++num_failed;
        throw;
      } catch (const CollectiveError&) {
        ++num_others;
        throw;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << comm.rank() << ": " << error.what();
        throw;
      }
    };
    int num_runs = 0;
    for (const bool on_gpus : {false, true})
      for (const Overlap overlap : {Overlap::never, Overlap::always}) {
        if (on_gpus && num_cuda_devices() < 3) continue;
        ++num_runs;

        expect_throws<ValueError>(
            [&] {
              run_ranks(3, [&](Communicator& comm) {
                const DefaultDeviceGuard guard(on_gpus ? Device(DeviceType::cuda, comm.rank())
                                                       : Device());
                train_until_failure(comm, overlap);
              });
            },
            "rank 1: told to fail");
      }
    EXPECT_EQ(num_failed, num_runs);
    EXPECT_EQ(num_others, 2 * num_runs);
  }
}

}  // namespace
}  // namespace ringrad
