// Ranks with unequal numbers of samples. The reference is one rank that sees all ranks' samples,
// step by step.

#include "ringrad/parallel/train/data_parallel/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/parallel/train/uneven_rows.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::all_of;
using testing::Batch;
using testing::batch_of;
using testing::copies;
using testing::expect_close;
using testing::kSgd;
using testing::make_net;
using testing::on_every_stream;
using testing::reference;
using testing::Rows;

const Rows kUneven[] = {
    {{4, 4, 4, 4}, {4, 4, 1}},             // the last batch of rank 1 is small
    {{3}, {4, 4, 4}},                      // rank 0 ends first
    {{}, {5, 2}},                          // rank 0 has no data at all
    {{2, 2, 2}, {1, 7, 2, 5, 1}, {4, 4}},  // no pattern
    {{3, 1}, {3}, {}, {3, 3, 3}},
};

TEST(JoinTest, EveryStepAveragesOverTheSamplesOfAllRanks) {
  for (const Rows& rows : kUneven) {
    SCOPED_TRACE(&rows - kUneven);
    on_every_stream(static_cast<int>(rows.size()), [&rows](Communicator& comm, Overlap overlap) {
      const auto expected = reference(rows);
      nn::Sequential net = make_net();
      DistributedDataParallel model(net, comm, {.bucket_bytes = 600, .overlap = overlap});
      nn::SGD optimizer(net.parameters(), kSgd);
      std::size_t step = 0;
      const auto check = [&] {
        ASSERT_LT(step, expected.size());
        for (std::size_t i = 0; i < expected[step].size(); ++i)
          expect_close(net.parameters()[i].detach(), expected[step][i], 64);
        ++step;
      };
      Join join(model);
      const auto& own = rows[static_cast<std::size_t>(comm.rank())];
      for (const std::int64_t count : own) {
        const Batch batch = batch_of(comm.rank(), step, count);
        optimizer.zero_grad();
        cross_entropy(model(batch.x), batch.y).backward();
        optimizer.step();
        check();
      }
      const std::int64_t joined = join.finish([&] {
        optimizer.step();
        check();
      });
      EXPECT_EQ(joined, static_cast<std::int64_t>(expected.size() - own.size()));
      EXPECT_EQ(step, expected.size());
      EXPECT_TRUE(replicas_identical(net, comm));
      for (const Tensor& parameter : net.parameters()) parameter.set_grad({});
      optimizer.step();  // changes by the momentum alone
      EXPECT_TRUE(replicas_identical(net, comm)) << "the momentum differs";
    });
  }
}

TEST(JoinTest, WithEqualBatchesItChangesNoBit) {
  on_every_stream(3, [](Communicator& comm, Overlap overlap) {
    const auto trained = [&](bool joins) {
      nn::Sequential net = make_net();
      DistributedDataParallel model(net, comm, {.bucket_bytes = 600, .overlap = overlap});
      nn::SGD optimizer(net.parameters(), kSgd);
      std::optional<Join> join;
      if (joins) join.emplace(model);
      for (std::size_t step = 0; step < 3; ++step) {
        const Batch batch = batch_of(comm.rank(), step, 5);
        optimizer.zero_grad();
        cross_entropy(model(batch.x), batch.y).backward();
        optimizer.step();
      }
      if (join) {
        EXPECT_EQ(join->finish([] { ADD_FAILURE(); }), 0);
      }
      return copies(net);
    };
    const auto with = trained(true), without = trained(false);
    for (std::size_t i = 0; i < with.size(); ++i) testing::expect_same_bits(with[i], without[i]);
  });
}

// An epoch with a Join, one without, and one with another.
TEST(JoinTest, AfterItTheModelIsWhatItWas) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    nn::Sequential net = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    const auto gradients = [&](std::int64_t rows) {
      const Batch batch = batch_of(comm.rank(), 0, rows);
      net.zero_grad();
      cross_entropy(model(batch.x), batch.y).backward();
      return net.parameters().front().grad().to_vector<float>();
    };
    const std::int64_t uneven = comm.rank() == 0 ? 2 : 6;
    const auto alone = gradients(uneven);
    std::vector<float> joined;
    for (int epoch = 0; epoch < 2; ++epoch) {
      {
        Join join(model);
        joined = gradients(uneven);
        join.finish([] {});
      }
      EXPECT_NE(joined, alone);
      EXPECT_EQ(gradients(uneven), alone);
    }
  });
}

// Rank 1 has one part less in the last step. Its parts have equally many rows, and its loss is
// divided by their number.
TEST(JoinTest, RowsUnderNoSyncCountInThePassThatReduces) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    nn::Sequential net = make_net(), whole = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    Join join(model);
    const Rows rows{{3, 3}, {5}};  // of parts, one step
    const std::size_t num_parts = rows[static_cast<std::size_t>(comm.rank())].size();
    const std::size_t calls_before = comm.flight().records().size();
    for (std::size_t part = 0; part < num_parts; ++part) {
      std::optional<DistributedDataParallel::NoSync> alone;
      if (part + 1 < num_parts) alone.emplace(model);
      const Batch batch =
          batch_of(comm.rank(), part, rows[static_cast<std::size_t>(comm.rank())][part]);
      const Tensor loss = cross_entropy(model(batch.x), batch.y);
      (loss / static_cast<double>(num_parts)).backward();
      if (alone) {
        EXPECT_EQ(comm.flight().records().size(), calls_before);
      }
    }
    const Batch first = all_of(rows, 0), second = all_of(rows, 1);
    const std::vector<Tensor> x{first.x, second.x}, y{first.y, second.y};
    cross_entropy(whole(kernels::concatenate(x)), kernels::concatenate(y)).backward();
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      expect_close(net.parameters()[i].grad(), whole.parameters()[i].grad(), 64);
    join.finish([] {});
  });
}

// Evaluation in between, and forward passes without backward, concern this rank alone.
TEST(JoinTest, OnlyPassesThatAreReducedAreAnnounced) {
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net = make_net();
    DistributedDataParallel model(net, comm);
    Join join(model);
    if (comm.rank() == 1) {
      {
        const NoGradGuard guard;
        model(ones({2, 6}));
      }
      net.eval();
      model(ones({2, 6}));
      net.train();
    }
    EXPECT_EQ(join.finish([] {}), 0);
  });
}

// Batch norm's statistics are those of the lowest rank with data before each step, and finally
// those of the last rank with data.
TEST(JoinTest, BuffersAreThoseOfTheRanksThatHaveData) {
  on_every_stream(3, [](Communicator& comm, Overlap overlap) {
    const Rows rows{{4}, {4, 4, 4}, {4, 4}};
    nn::Sequential net(nn::Linear(6, 4), nn::BatchNorm1d(4), nn::Linear(4, 3));
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    nn::SGD optimizer(net.parameters(), kSgd);
    Join join(model);
    Tensor own_mean;
    for (std::size_t step = 0; step < rows[static_cast<std::size_t>(comm.rank())].size(); ++step) {
      const Batch batch = batch_of(comm.rank(), step, 4);
      optimizer.zero_grad();
      cross_entropy(model(batch.x), batch.y).backward();
      optimizer.step();
      own_mean = clone(net.named_buffers().front().second);
    }
    join.finish([&] { optimizer.step(); });
    EXPECT_TRUE(replicas_identical(net, comm));
    comm.broadcast(own_mean, 1);  // the last with data
    testing::expect_same_bits(net.named_buffers().front().second, own_mean);
  });
}

// A rank whose last step overflowed leaves values that a weight of zero does not turn into zero.
TEST(JoinTest, WhatARankHadBeforeItFinishedDoesNotCount) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    nn::Sequential net = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    Join join(model);
    const Tensor first = net.parameters().front();
    if (comm.rank() == 0) {
      kernels::fill_(first.grad(), std::numeric_limits<double>::infinity());
    } else {
      const Batch batch = batch_of(1, 0, 4);
      cross_entropy(model(batch.x), batch.y).backward();
    }
    join.finish([] {});
    for (const float value : first.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
  });
}

}  // namespace
}  // namespace ringrad
