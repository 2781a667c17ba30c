// Everything that writes into a tensor of its caller passes the same checks. The table lists the
// writers that this library has; tests/python/test_writers.py finds those that end with an
// underscore by their names, so that a new one cannot be forgotten.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/nn/init.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

struct Writer {
  std::string name;
  std::function<void(const Tensor& y)> write;  // y: float32 (2, 2)
  bool takes_expanded = false;
  bool takes_leaves = false;
};

Tensor twos() { return full({2, 2}, 2); }

const Writer kWriters[] = {
    {"add_", [](const Tensor& y) { add_(y, twos()); }},
    {"add_ number", [](const Tensor& y) { add_(y, 2); }},
    {"sub_", [](const Tensor& y) { sub_(y, twos()); }},
    {"sub_ number", [](const Tensor& y) { sub_(y, 2); }},
    {"mul_", [](const Tensor& y) { mul_(y, twos()); }},
    {"mul_ number", [](const Tensor& y) { mul_(y, 2); }},
    {"div_", [](const Tensor& y) { div_(y, twos()); }},
    {"div_ number", [](const Tensor& y) { div_(y, 2); }},
    {"copy_", [](const Tensor& y) { copy_(y, twos()); }},
    {"fill_", [](const Tensor& y) { fill_(y, 2); }, true},
    {"zero_", [](const Tensor& y) { zero_(y); }, true},
    {"assign", [](const Tensor& y) { assign(y, {0}, full({2}, 2)); }, true},  // one row
    {"assign a number", [](const Tensor& y) { assign(y, {0}, 2); }, true},
    {"assign at positions",
     [](const Tensor& y) {
       assign(y, {tensor({0, 1})}, twos());
     }},
    {"assign by a mask", [](const Tensor& y) { assign(y, {y > -1e9}, 2); }},
    {"scatter_",
     [](const Tensor& y) {
       kernels::scatter_(y, 0, zeros({2, 2}, {.dtype = DType::int64}), twos());
     }},
    {"uniform_", [](const Tensor& y) { uniform_(y, 0, 1); }},
    {"normal_", [](const Tensor& y) { normal_(y, 0, 1); }},
    {"exponential_", [](const Tensor& y) { exponential_(y); }},
    {"bernoulli_", [](const Tensor& y) { bernoulli_(y, 0.5); }},
    {"kaiming_uniform_", [](const Tensor& y) { nn::kaiming_uniform_(y); }, false, true},
    {"kaiming_normal_", [](const Tensor& y) { nn::kaiming_normal_(y); }, false, true},
    {"xavier_uniform_", [](const Tensor& y) { nn::xavier_uniform_(y); }, false, true},
    {"xavier_normal_", [](const Tensor& y) { nn::xavier_normal_(y); }, false, true},
    {"mark_changed", [](const Tensor& y) { y.mark_changed(); }},
};

// PyTorch records a random fill, whose gradient is 0. Here a change is never recorded, so it is
// refused: before it, the gradient was that of the overwritten values.
TEST(WritersTest, RefuseARecordedResult) {
  for (const Writer& writer : kWriters) {
    SCOPED_TRACE(writer.name);
    const Tensor x = ones({2, 2}).set_requires_grad();
    const Tensor y = x * 2;
    const std::uint32_t version = y.version();
    expect_throws<AutogradError>([&] { writer.write(y); }, "got the result of mul at");
    expect_throws<AutogradError>([&] { writer.write(reshape(y, {2, 2})); }, "got the result of");
    EXPECT_EQ(y.version(), version);
    expect_close(y, {2, 2, 2, 2});
    sum(y).backward();
    expect_close(x.grad(), {2, 2, 2, 2});
  }
}

TEST(WritersTest, RefuseALeafThatRequiresAGradient) {
  for (const Writer& writer : kWriters) {
    SCOPED_TRACE(writer.name);
    const Tensor x = ones({2, 2}).set_requires_grad();
    if (writer.takes_leaves) {  // initialisers, as in PyTorch
      writer.write(x);
      EXPECT_TRUE(x.is_leaf() && x.requires_grad());
      continue;
    }
    expect_throws<AutogradError>([&] { writer.write(x); }, "got a leaf made at writers_test.cc");
    expect_close(x, {1, 1, 1, 1});
  }
}

TEST(WritersTest, WriteUnderNoGradAndCountIt) {
  for (const Writer& writer : kWriters) {
    SCOPED_TRACE(writer.name);
    const Tensor x = ones({2, 2}).set_requires_grad();
    const Tensor y = x * 2;
    for (const Tensor& written : {x, y}) {
      const NoGradGuard guard;
      const std::uint32_t version = written.version();
      writer.write(written);
      EXPECT_GT(written.version(), version);
    }
  }
}

TEST(WritersTest, BackwardRefusesASavedTensorThatWasWritten) {
  for (const Writer& writer : kWriters) {
    SCOPED_TRACE(writer.name);
    const Tensor x = full({2, 2}, 3), w = ones({2, 2}).set_requires_grad();
    const Tensor loss = sum(x * w);
    writer.write(x);
    expect_throws<AutogradError>([&] { loss.backward(); }, "it was changed in place at");
  }
}

TEST(WritersTest, RefuseExpandedTensors) {
  for (const Writer& writer : kWriters) {
    SCOPED_TRACE(writer.name);
    const Tensor y = view::expand(ones({1, 2}), {2, 2});
    if (writer.takes_expanded)
      writer.write(y);
    else
      expect_throws<ValueError>([&] { writer.write(y); }, "its own place in memory");
  }
}

// -- Collectives ----------------------------------------------------------------------------------

struct Collective {
  const char* name;
  void (*write)(Communicator& comm, const Tensor& y);  // y: float32 (2,)
};

const Collective kCollectives[] = {
    {"all_reduce", [](Communicator& comm, const Tensor& y) { comm.all_reduce(y); }},
    {"broadcast", [](Communicator& comm, const Tensor& y) { comm.broadcast(y, 0); }},
    {"reduce", [](Communicator& comm, const Tensor& y) { comm.reduce(y, 1); }},
    {"reduce_scatter",
     [](Communicator& comm, const Tensor& y) { comm.reduce_scatter(y, ones({4})); }},
    {"all_gather", [](Communicator& comm, const Tensor& y) { comm.all_gather(y, ones({1})); }},
    {"all_to_all", [](Communicator& comm, const Tensor& y) { comm.all_to_all(y, ones({2})); }},
};

TEST(WritersTest, CollectivesRefuseRecordedTensorsAndTheGroupStaysWhole) {
  run_ranks(2, [](Communicator& comm) {
    for (const Collective& collective : kCollectives) {
      SCOPED_TRACE(collective.name);
      const Tensor x = ones({2}).set_requires_grad();
      const Tensor y = x * 2;
      expect_throws<AutogradError>([&] { collective.write(comm, x); }, "got a leaf made at");
      expect_throws<AutogradError>([&] { collective.write(comm, y); }, "got the result of mul at");
      sum(y).backward();
      expect_close(x.grad(), {2, 2});
      const NoGradGuard guard;
      const std::uint32_t version = x.version();
      collective.write(comm, x);
      EXPECT_TRUE(x.version() > version ||
                  (collective.name == std::string("broadcast") && comm.rank() == 0));
    }
  });
}

TEST(WritersTest, RecvRefusesARecordedTensor) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 0) return comm.send(full({2}, 5), 1);
    const Tensor x = ones({2}).set_requires_grad();
    expect_throws<AutogradError>([&] { comm.recv(x * 2, 0); }, "recv: ");
    expect_throws<AutogradError>([&] { comm.recv(x, 0); }, "recv: ");
    const NoGradGuard guard;
    comm.recv(x, 0);
    expect_close(x, {5, 5});
  });
}

}  // namespace
}  // namespace ringrad
