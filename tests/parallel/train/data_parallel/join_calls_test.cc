// Which calls a Join counts, and several models with a Join each. The reference is one rank that
// sees all ranks' samples.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/parallel/train/data_parallel/join.h"
#include "ringrad/tests/parallel/train/every_stream.h"
#include "ringrad/tests/parallel/train/uneven_rows.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace ringrad::testing;

// A backward pass counts whether the model trains or only its mode of evaluation is tuned, whether
// the model is called or its module, and whether the call is recorded twice.
TEST(JoinCallsTest, EveryCallThatABackwardPassReachesCounts) {
  using Call = std::function<Tensor(nn::Sequential&, DistributedDataParallel&, const Tensor&)>;
  const Call calls[] = {
      [](nn::Sequential&, DistributedDataParallel& model, const Tensor& x) { return model(x); },
      [](nn::Sequential& net, DistributedDataParallel&, const Tensor& x) { return net(x); },
      [](nn::Sequential&, DistributedDataParallel& model, const Tensor& x) {
        return activation_checkpoint(
            [&](const std::vector<Tensor>& inputs) { return model(inputs[0]); },
            {x.detach().set_requires_grad()});
      },
      [](nn::Sequential& net, DistributedDataParallel& model, const Tensor& x) {
        model.begin_forward(x);
        return net(x);
      },
  };
  for (const Call& call : calls)
    for (const bool trains : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "call " << &call - calls << ", trains " << trains);
      on_every_stream(2, [&](Communicator& comm, Overlap overlap) {
        const Rows rows{{1}, {3}};
        nn::Sequential net = make_net(), whole = make_net();
        DistributedDataParallel model(net, comm, {.overlap = overlap});
        Join join(model);
        net.train(trains);
        const Batch batch =
            batch_of(comm.rank(), 0, rows[static_cast<std::size_t>(comm.rank())][0]);
        cross_entropy(call(net, model, batch.x), batch.y).backward();
        const Batch all = all_of(rows, 0);
        cross_entropy(whole(all.x), all.y).backward();
        for (std::size_t i = 0; i < net.parameters().size(); ++i)
          expect_close(net.parameters()[i].grad(), whole.parameters()[i].grad(), 64);
        EXPECT_EQ(join.finish([] {}), 0);
      });
    }
}

// The loss of a rank is the mean over the rows of both calls.
TEST(JoinCallsTest, APassMayComeFromSeveralCalls) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const Rows rows{{1, 2}, {3, 4}};
    nn::Sequential net = make_net(), whole = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    Join join(model);
    const auto loss_of = [&](auto& called, int rank) {
      const auto& own = rows[static_cast<std::size_t>(rank)];
      const Batch first = batch_of(rank, 0, own[0]), second = batch_of(rank, 1, own[1]);
      return static_cast<double>(own[0]) * cross_entropy(called(first.x), first.y) +
             static_cast<double>(own[1]) * cross_entropy(called(second.x), second.y);
    };
    (loss_of(model, comm.rank()) / (comm.rank() == 0 ? 3. : 7.)).backward();
    ((loss_of(whole, 0) + loss_of(whole, 1)) / 10.).backward();
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      expect_close(net.parameters()[i].grad(), whole.parameters()[i].grad(), 64);
    join.finish([] {});
  });
}

// Passes that are all reduced add up, as long as all ranks have data and step together.
TEST(JoinCallsTest, PassesThatAreReducedAddUp) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const Rows rows{{1, 2}, {3, 5}};
    nn::Sequential net = make_net(), whole = make_net();
    DistributedDataParallel model(net, comm, {.overlap = overlap});
    Join join(model);
    for (std::size_t part = 0; part < 2; ++part) {
      const Batch batch =
          batch_of(comm.rank(), part, rows[static_cast<std::size_t>(comm.rank())][part]);
      cross_entropy(model(batch.x), batch.y).backward();
      const Batch all = all_of(rows, part);
      cross_entropy(whole(all.x), all.y).backward();
    }
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      expect_close(net.parameters()[i].grad(), whole.parameters()[i].grad(), 64);
    join.finish([] {});
    EXPECT_TRUE(replicas_identical(net, comm));
  });
}

// Two models on one communicator, whose ranks have different rows but equally many steps.
TEST(JoinCallsTest, TwoModelsOfOneGroupEachHaveAJoin) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const Rows rows{{1, 4}, {3, 2}};
    nn::Sequential a = make_net(), b = make_net(), whole = make_net();
    DistributedDataParallel model_a(a, comm, {.overlap = overlap});
    DistributedDataParallel model_b(b, comm, {.overlap = overlap});
    Join join_a(model_a), join_b(model_b);
    const auto& own = rows[static_cast<std::size_t>(comm.rank())];
    const Batch first = batch_of(comm.rank(), 0, own[0]), second = batch_of(comm.rank(), 1, own[1]);
    cross_entropy(model_a(first.x), first.y).backward();
    cross_entropy(model_b(second.x), second.y).backward();
    const auto check = [&](nn::Sequential& net, std::size_t step) {
      whole.zero_grad();
      const Batch all = all_of(rows, step);
      cross_entropy(whole(all.x), all.y).backward();
      for (std::size_t i = 0; i < net.parameters().size(); ++i)
        expect_close(net.parameters()[i].grad(), whole.parameters()[i].grad(), 64);
    };
    check(a, 0);
    check(b, 1);
    join_a.finish([] {});
    join_b.finish([] {});
  });
}

TEST(JoinCallsTest, SeveralModelsOfOneGroupFinishTogether) {
  on_every_stream(2, [](Communicator& comm, Overlap overlap) {
    const Rows rows{{2, 3}, {4, 1, 5, 2}};
    const auto expected = reference(rows);
    nn::Sequential nets[] = {make_net(), make_net()};
    DistributedDataParallel a(nets[0], comm, {.overlap = overlap}),
        b(nets[1], comm, {.overlap = overlap});
    nn::SGD of_a(nets[0].parameters(), kSgd), of_b(nets[1].parameters(), kSgd);
    Join join_a(a), join_b(b);
    std::size_t step = 0;
    const auto end_step = [&] {
      of_a.step();
      of_b.step();
      ASSERT_LT(step, expected.size());
      for (const nn::Sequential& net : nets)
        for (std::size_t i = 0; i < expected[step].size(); ++i)
          expect_close(net.parameters()[i].detach(), expected[step][i], 64);
      ++step;
    };
    for (const std::int64_t count : rows[static_cast<std::size_t>(comm.rank())]) {
      const Batch batch = batch_of(comm.rank(), step, count);
      of_a.zero_grad();
      of_b.zero_grad();
      cross_entropy(a(batch.x), batch.y).backward();
      cross_entropy(b(batch.x), batch.y).backward();
      end_step();
    }
    EXPECT_EQ(Join::finish({&join_a, &join_b}, end_step), comm.rank() == 0 ? 2 : 0);
    EXPECT_EQ(step, expected.size());
    for (const nn::Sequential& net : nets) EXPECT_TRUE(replicas_identical(net, comm));
  });
}

}  // namespace
}  // namespace ringrad
