#include "ringrad/parallel/train/data_parallel/power_sgd.h"

#include <cmath>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/hook_state.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::on_every_stream;
using testing::OneBucket;
using testing::same_on_all_ranks;
using Vector = std::vector<float>;

constexpr std::int64_t kRows = 20, kColumns = 30;
constexpr double kSlack = 256;  // Gram-Schmidt of random columns, and sums of 30 terms

// (kRows, kColumns) of this rank: a product of random factors. The right factor stays the same from
// pass to pass, so Q starts where it ended and little cancels in Gram-Schmidt.
Tensor matrix_of_rank(std::int64_t rank, const Communicator& comm, int pass) {
  Generator left(static_cast<std::uint64_t>(100 * (pass + 1) + comm.rank()));
  Generator right(static_cast<std::uint64_t>(comm.rank()));
  const Options on_host{.device = Device()};
  if (rank == 0) return zeros({kRows, kColumns}, on_host);
  return matmul(randn({kRows, rank}, on_host, left), randn({rank, kColumns}, on_host, right));
}

// The average that `bucket` makes of this rank's matrix, and the average of an all_reduce.
struct Averages {
  Tensor compressed, exact;
};
Averages averages(Communicator& comm, OneBucket& bucket, const Tensor& own) {
  const Tensor exact = clone(own);
  comm.all_reduce(exact, ReduceOp::mean);
  const Vector result = bucket.reduce(own.to_vector<float>());
  EXPECT_TRUE(same_on_all_ranks(comm, result));
  const DefaultDeviceGuard on_host{Device()};
  return {from_values<float>(result, own.shape()), exact};
}

double norm(const Tensor& x) {
  double squares = 0;
  for (const double value : x.to_vector<double>()) squares += value * value;
  return std::sqrt(squares);
}

// Two ranks' gradients of rank 2 have an average of rank 4. After each pass only rounding is left.
TEST(PowerSgdTest, AnAverageOfLowRankComesOutExactly) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {kRows, kColumns}, power_sgd({.rank = 4}));
    for (int pass = 0; pass < 4; ++pass) {
      const auto [compressed, exact] = averages(comm, bucket, matrix_of_rank(2, comm, pass));
      expect_close(compressed, exact, kSlack);
    }
  });
}

// Dependent columns of P must neither be counted twice nor be lost for later passes.
TEST(PowerSgdTest, AverageOfLowerRankIsExactAndCostsNoRankLater) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {kRows, kColumns}, power_sgd({.rank = 4}));
    int pass = 0;
    for (const int rank : {0, 1, 2, 1, 2}) {  // of each rank's matrix: twice that of the average
      const auto [compressed, exact] = averages(comm, bucket, matrix_of_rank(rank, comm, ++pass));
      expect_close(compressed, exact, kSlack);
    }
  });
}

// Seven columns of P are rounding error. Used as directions, they would not be orthogonal.
TEST(PowerSgdTest, ManyDependentColumnsLeaveOneExact) {
  run_ranks(1, [](Communicator& comm) {
    for (int seed = 0; seed < 50; ++seed) {
      OneBucket bucket(comm, Overlap::never, {kRows, kColumns}, power_sgd({.rank = 8}));
      for (int pass = 0; pass < 3; ++pass) {
        const auto [compressed, exact] =
            averages(comm, bucket, matrix_of_rank(1, comm, 10 * seed + pass));
        expect_close(compressed, exact, 32);
      }
    }
  });
}

// Nearly parallel columns of P: one subtraction leaves a thousandth, with a thousand times its
// rounding.
TEST(PowerSgdTest, SmallDirectionsBesideLargeOnesStayOrthogonal) {
  run_ranks(1, [](Communicator& comm) {
    for (int seed = 0; seed < 50; ++seed) {
      Generator generator(static_cast<std::uint64_t>(seed));
      const Tensor left = randn({kRows, 4}, {}, generator);
      const Tensor scales = tensor({1, 1e-3f, 1e-3f, 1e-3f});
      OneBucket bucket(comm, Overlap::never, {kRows, kColumns}, power_sgd({.rank = 4}));
      const auto [compressed, exact] =
          averages(comm, bucket, matmul(left * scales, randn({4, kColumns}, {}, generator)));
      EXPECT_LT(norm(compressed - exact), 1000 * testing::epsilon(DType::float32) * norm(exact));
    }
  });
}

TEST(PowerSgdTest, ScaleDoesNotMatter) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    for (const double scale : {1e-30, 1e30}) {
      OneBucket bucket(comm, overlap, {kRows, kColumns}, power_sgd({.rank = 4}));
      const auto [compressed, exact] = averages(comm, bucket, matrix_of_rank(2, comm, 0) * scale);
      expect_close(compressed / scale, exact / scale, kSlack);
    }
  });
}

// A pass loses most of a gradient of full rank. What is left follows, pass by pass, when no new
// gradients come.
TEST(PowerSgdTest, LosesNothing) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {kRows, kColumns}, power_sgd({.rank = 3}));
    const DefaultDeviceGuard on_host{Device()};
    Tensor sent = zeros({kRows, kColumns}), total = zeros({kRows, kColumns});
    for (int pass = 0; pass < 24; ++pass) {
      const auto [compressed, exact] =
          averages(comm, bucket, matrix_of_rank(pass < 4 ? 20 : 0, comm, pass));
      EXPECT_GT(norm(compressed - exact), 0.1 * norm(exact));  // otherwise there is nothing to lose
      sent = sent + compressed;
      total = total + exact;
    }
    expect_close(sent, total, 1 << 12);
  });
}

// The second pass starts with the Q of the first: power iteration approaches the largest
// directions.
TEST(PowerSgdTest, StartsWhereThePassBeforeHasEnded) {
  run_ranks(1, [](Communicator& comm) {
    const Tensor own = matrix_of_rank(20, comm, 0);
    OneBucket bucket(comm, Overlap::never, {kRows, kColumns}, power_sgd({.rank = 4}));
    const Tensor first = averages(comm, bucket, own).compressed;
    const Tensor second = averages(comm, bucket, first).compressed;  // left + g = own again
    EXPECT_LT(norm(second - own), 0.95 * norm(first - own));
  });
}

TEST(PowerSgdTest, WhatIsNotFiniteReachesAllRanksAndIsNotKept) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      OneBucket bucket(comm, overlap, {kRows, kColumns}, power_sgd({.rank = 4}));
      Vector own = matrix_of_rank(2, comm, 0).to_vector<float>();
      if (comm.rank() == 1) own[7] = bad;
      for (const float value : bucket.reduce(own)) EXPECT_TRUE(std::isnan(value));
      for (int pass = 1; pass < 3; ++pass) {
        const auto [compressed, exact] = averages(comm, bucket, matrix_of_rank(2, comm, pass));
        expect_close(compressed, exact, kSlack);
      }
    }
  });
}

TEST(PowerSgdTest, APassThatIsNotFiniteKeepsWhatWasLeft) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const CommunicationHook hook = power_sgd({.rank = 3});
    OneBucket bucket(comm, overlap, {kRows, kColumns}, hook);
    averages(comm, bucket, matrix_of_rank(20, comm, 0));
    const auto values_of = [&](const char* name) {
      return state_of(hook)->state().at(name).to_vector<float>();
    };
    const Vector left = values_of("left.weight"), start = values_of("start.weight");
    Vector own = matrix_of_rank(2, comm, 1).to_vector<float>();
    if (comm.rank() == 1) own[7] = std::numeric_limits<float>::infinity();
    bucket.reduce(own);
    EXPECT_EQ(values_of("left.weight"), left);
    EXPECT_EQ(values_of("start.weight"), start);
  });
}

// The bias, and a matrix too small to compress, are averaged bit by bit; a bucket takes two
// messages.
TEST(PowerSgdTest, SendsThinMatricesAndTheRestAsItIs) {
  run_ranks(2, [](Communicator& comm) {
    struct Two : nn::Module {
      nn::Linear& large = child("large", nn::Linear(40, 24));
      nn::Linear& small = child("small", nn::Linear(24, 2));
      Tensor forward(const Tensor& x, Where) override { return small(large(x)); }
    };
    const auto gradients = [&](CommunicationHook hook) {
      manual_seed(1);
      auto net = std::make_unique<Two>();
      DistributedDataParallel replica(*net, comm, {.bucket_bytes = 1 << 20});
      if (hook) replica.set_communication_hook(std::move(hook));
      Generator generator(static_cast<std::uint64_t>(comm.rank()));
      square(replica(randn({5, 40}, {}, generator))).backward(ones({5, 2}));
      return net;
    };
    const auto exact = gradients({});
    const auto compressed = gradients(power_sgd({.rank = 2}));
    for (const auto& [name, tensor] : compressed->named_parameters()) {
      const bool is_large = name == "large.weight";
      for (const auto& [other, reference] : exact->named_parameters())
        if (other == name && !is_large)
          testing::expect_same_bits(tensor.grad(), reference.grad());
        else if (other == name)
          expect_close(tensor.grad(), reference.grad(),
                       kSlack);  // hidden behind 2 outputs: of rank 2
    }
    std::vector<std::int64_t> counts;
    for (const FlightRecord& record : comm.flight().records())
      if (record.call.op == CollectiveOp::all_reduce && record.call.reduce == ReduceOp::mean)
        counts.push_back(record.call.count);
    ASSERT_EQ(counts.size(), 3u);
    EXPECT_GE(counts[0], 24 * 40 + 24 + 2 * 24 + 2);
    EXPECT_EQ(counts[1], 2 * 24 + 24 + 2 * 24 + 2);
    EXPECT_EQ(counts[2], 2 * 40);
  });
}

TEST(PowerSgdTest, KernelsOfConvolutionsAreMatricesOfTheirFilters) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    OneBucket bucket(comm, overlap, {kRows, kColumns / 6, 2, 3}, power_sgd({.rank = 4}));
    const auto [compressed, exact] = averages(comm, bucket, matrix_of_rank(2, comm, 0));
    expect_close(compressed, exact, kSlack);
  });
}

TEST(PowerSgdTest, TheRankMustBePositive) {
  expect_throws<ValueError>([] { power_sgd({.rank = 0}); }, "rank must be positive; got 0");
}

}  // namespace
}  // namespace ringrad
