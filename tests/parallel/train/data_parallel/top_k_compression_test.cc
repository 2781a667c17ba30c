// The reference keeps every rank's memory by name and place, and sorts.

#include "ringrad/parallel/train/data_parallel/top_k_compression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::on_every_stream;
using testing::OneBucket;
using Vector = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Takes the k largest out of `left`, the first ones among equals.
Vector take_largest(Vector& left, std::size_t k) {
  std::vector<std::size_t> order(left.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return std::abs(left[a]) > std::abs(left[b]); });
  Vector taken(left.size());
  for (std::size_t i = 0; i < k; ++i) taken[order[i]] = std::exchange(left[order[i]], 0.f);
  return taken;
}

Vector gradients_of(int rank, int pass, std::size_t count) {
  Generator generator(static_cast<std::uint64_t>(100 * rank + pass));
  const Tensor g = randn({static_cast<std::int64_t>(count)}, {.device = Device()}, generator);
  return g.to_vector<float>();
}

TEST(TopKCompressionTest, SendsTheLargestAndKeepsTheRestForLater) {
  constexpr std::size_t kCount = 1003, kK = 51;
  for (const int n : {1, 2, 3})
    on_every_stream(n, [n](Communicator& comm, Overlap overlap) {
      OneBucket bucket(comm, overlap, {kCount}, top_k_compression({.ratio = 0.05}));
      std::vector<Vector> left(static_cast<std::size_t>(n), Vector(kCount));
      for (int pass = 0; pass < 5; ++pass) {
        Vector mean(kCount);
        for (int rank = 0; rank < n; ++rank) {
          Vector& own = left[static_cast<std::size_t>(rank)];
          const Vector g = gradients_of(rank, pass, kCount);
          for (std::size_t i = 0; i < kCount; ++i) own[i] += g[i];
          const Vector sent = take_largest(own, kK);
          for (std::size_t i = 0; i < kCount; ++i) mean[i] += sent[i];
        }
        for (float& value : mean) value /= static_cast<float>(n);
        EXPECT_EQ(bucket.reduce(gradients_of(comm.rank(), pass, kCount)), mean) << pass;
      }
    });
}

// After enough passes without gradients everything has been sent.
TEST(TopKCompressionTest, LosesNothing) {
  constexpr std::size_t kCount = 100;
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {kCount}, top_k_compression({.ratio = 0.1}));
    std::vector<double> sent(kCount), total(kCount);
    for (int pass = 0; pass < 14; ++pass) {
      const bool has_gradients = pass < 4;
      const Vector own = has_gradients ? gradients_of(comm.rank(), pass, kCount) : Vector(kCount);
      const Vector mean = bucket.reduce(own);
      for (std::size_t i = 0; i < kCount; ++i) {
        sent[i] += mean[i];
        for (int rank = 0; rank < 2 && has_gradients; ++rank)
          total[i] += gradients_of(rank, pass, kCount)[i] / 2.0;
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(sent[i], total[i], 4e-6);
  });
}

TEST(TopKCompressionTest, WithRatioOneItAverages) {
  on_every_stream(3, [](Communicator& comm, Overlap overlap) {
    OneBucket all(comm, overlap, {77}, top_k_compression({.ratio = 1}));
    const Tensor reference = empty({77});
    for (int pass = 0; pass < 2; ++pass) {
      const Vector own = gradients_of(comm.rank(), pass, 77);
      kernels::copy_(reference, from_values<float>(own, {77}));
      comm.all_reduce(reference, ReduceOp::mean);
      EXPECT_EQ(all.reduce(own), reference.to_vector<float>());
    }
  });
}

TEST(TopKCompressionTest, ABucketMayBeEmpty) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    EXPECT_TRUE(OneBucket(comm, overlap, {0}, top_k_compression()).reduce(Vector()).empty());
  });
}

TEST(TopKCompressionTest, AtLeastOneIsSentAndOfEqualOnesTheFirst) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {5}, top_k_compression({.ratio = 1e-9}));
    EXPECT_EQ(bucket.reduce(Vector{1, -2, 2, 0, 2}), (Vector{0, -2, 0, 0, 0}));
    EXPECT_EQ(bucket.reduce(Vector(5)), (Vector{0, 0, 2, 0, 0}));
    EXPECT_EQ(bucket.reduce(Vector(5)), (Vector{0, 0, 0, 0, 2}));
    EXPECT_EQ(bucket.reduce(Vector(5)), (Vector{1, 0, 0, 0, 0}));
  });
}

// A caller that checks gradients skips a step with numbers out of range; such a step must not spoil
// the next one.
TEST(TopKCompressionTest, WhatIsNotFiniteReachesAllRanksAndIsNotKept) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {6}, top_k_compression({.ratio = 0.3}));
    const Vector bad{1, kNaN, 3, -kInfinity, kNaN, 6};
    const Vector mean = bucket.reduce(comm.rank() == 0 ? bad : Vector(6));
    EXPECT_TRUE(std::isnan(mean[1]));
    EXPECT_EQ(mean[3], -kInfinity);
    EXPECT_EQ(bucket.reduce(Vector(6)), (Vector{0, 0, 1.5, 0, 0, 3}));
    EXPECT_EQ(bucket.reduce(Vector(6)), (Vector{0.5, 0, 0, 0, 0, 0}));
  });
}

TEST(TopKCompressionTest, GradientsMayBeOf64Bits) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {5}, top_k_compression({.ratio = 0.6}), DType::float64);
    const double tiny = 1e-12;  // representable next to 1 only in double
    const std::vector<double> own{1 + tiny, 0.1, -1 - 2 * tiny, 0.2, 3};
    EXPECT_EQ(bucket.reduce(own), (std::vector<double>{1 + tiny, 0, -1 - 2 * tiny, 0, 3}));
  });
}

// Modules are called in another order than they are registered in, so the second pass has other
// buckets than the first. Both ranks have the same gradients: the average is what this rank has
// sent.
TEST(TopKCompressionTest, WhatWasLeftStaysWithItsParameterWhenBucketsAreMadeAnew) {
  struct Reversed : nn::Module {
    nn::Sequential& second = child("second", half());
    nn::Sequential& first = child("first", half());
    static nn::Sequential half() {
      nn::Sequential layers;
      for (int i = 0; i < 3; ++i) layers.append(nn::Linear(5, 5));
      return layers;
    }
    Tensor forward(const Tensor& x, Where) override { return second(first(x)); }
  };
  run_ranks(2, [](Communicator& comm) {
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      Reversed net;
      DistributedDataParallel replica(net, comm, {.bucket_bytes = 500, .overlap = overlap});
      std::map<std::string, Vector> left;
      std::vector<std::string> firsts;
      replica.set_communication_hook([&, top_k = top_k_compression({.ratio = 0.2})](
                                         const GradientBucket& bucket,
                                         CommunicationStream& stream) {
        const Vector own = bucket.gradients.to_vector<float>();
        firsts.push_back(bucket.parameters.front().name);
        Vector sum = own;
        const auto each_parameter = [&](auto visit) {
          for (const auto& [name, shape, offset] : bucket.parameters) {
            Vector& kept = left[name];
            kept.resize(static_cast<std::size_t>(shape.numel()));
            visit(kept, sum.begin() + offset);
          }
        };
        each_parameter([](Vector& kept, auto part) {
          for (std::size_t i = 0; i < kept.size(); ++i) part[static_cast<int>(i)] += kept[i];
        });
        const auto k = static_cast<std::size_t>(std::ceil(0.2 * static_cast<double>(own.size())));
        const Vector expected = take_largest(sum, k);
        each_parameter([](Vector& kept, auto part) { kept.assign(part, part + kept.size()); });
        const Work work = top_k(bucket, stream);
        work.wait();
        EXPECT_EQ(bucket.gradients.to_vector<float>(), expected);
        return work;
      });
      const std::size_t num_buckets = replica.num_buckets();
      for (std::uint64_t pass = 0; pass < 4; ++pass) {
        Generator generator(pass);
        net.zero_grad();
        sum(square(replica(randn({3, 5}, {}, generator)))).backward();
      }
      EXPECT_TRUE(replica.summary().follows_arrival);
      EXPECT_GT(num_buckets, 2u);
      EXPECT_NE(firsts[0], firsts[num_buckets]) << "the second pass must begin with another bucket";
    }
  });
}

TEST(TopKCompressionTest, SendsEightBytesForEachOfTheLargest) {
  run_ranks(2, [](Communicator& comm) {
    OneBucket bucket(comm, Overlap::never, {1000}, top_k_compression({.ratio = 0.02}));
    bucket.reduce(Vector(1000, 1));
    const CollectiveCall call = comm.flight().records().back().call;
    EXPECT_EQ(call.op, CollectiveOp::all_gather);
    EXPECT_EQ(call.count * static_cast<std::int64_t>(size_bytes(call.dtype)), 2 * 20 * 8);
  });
}

TEST(TopKCompressionTest, TheRatioMustBeAFraction) {
  for (const double ratio : {0.0, -0.1, 1.1, std::nan("")})
    expect_throws<ValueError>([&] { top_k_compression({.ratio = ratio}); },
                              "ratio must be in (0, 1]");
}

}  // namespace
}  // namespace ringrad
