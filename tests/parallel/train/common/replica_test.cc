// A replica of rank 0's model, and each rank's error when the models differ or a rank fails.

#include "ringrad/parallel/train/common/replica.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using Errors = std::array<std::string, 3>;

// The error that the body throws on each of three ranks.
Errors errors_of(const std::function<void(Communicator&)>& body) {
  Errors errors;
  run_ranks(3, [&](Communicator& comm) {
    try {
      body(comm);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.message();
    }
  });
  return errors;
}

struct Pair : nn::Module {
  nn::Linear& linear = child("linear", nn::Linear(2, 3));
  nn::BatchNorm2d& norm = child("norm", nn::BatchNorm2d(3));
};

TEST(ReplicaTest, BeginsAsRankZerosModel) {
  run_ranks(3, [](Communicator& comm) {
    Pair pair;
    pair.linear.bias.set_requires_grad(false);
    const auto all = [&] {
      auto tensors = pair.named_parameters();
      for (const auto& named : pair.named_buffers()) tensors.push_back(named);
      return tensors;
    };
    for (const auto& [name, tensor] : all()) {
      if (tensor.dtype() != DType::float32) continue;
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        tensor.detach().data<float>()[i] = static_cast<float>(10 * comm.rank() + i);
    }
    const Replica replica("Test", pair, comm, Where::current());
    for (const auto& [name, tensor] : all()) {
      if (tensor.dtype() != DType::float32) continue;
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        EXPECT_EQ(tensor.detach().data<float>()[i], static_cast<float>(i)) << name;
    }
  });
}

void expect_difference_told(const std::function<void(nn::Linear&)>& change,
                            const std::string& both) {
  const Errors errors = errors_of([&](Communicator& comm) {
    nn::Linear linear(2, 3);
    if (comm.rank() == 1) change(linear);
    Replica("Test", linear, comm, Where::current());
  });
  const std::string rule = "Test: all ranks must hold the model of rank 0; different on rank 1";
  EXPECT_EQ(errors[0], rule);
  EXPECT_EQ(errors[1], rule + ", first at " + both);
  EXPECT_EQ(errors[2], rule);
}

TEST(ReplicaTest, ADifferentModelIsToldToAllRanks) {
  expect_difference_told([](nn::Linear& linear) { linear = nn::Linear(2, 4); },
                         "\"weight float32 (4, 2)\" and \"weight float32 (3, 2)\"");
  expect_difference_told([](nn::Linear& linear) { linear.to(DType::float64); },
                         "\"weight float64 (3, 2)\" and \"weight float32 (3, 2)\"");
  expect_difference_told([](nn::Linear& linear) { linear.bias.set_requires_grad(false); },
                         "\"bias float32 (3,) frozen\" and \"bias float32 (3,)\"");
}

TEST(ReplicaTest, ARankThatFailsBeforeIsToldToTheOthers) {
  const Errors errors = errors_of([](Communicator& comm) {
    if (comm.rank() == 2) {
      comm.abort("no model");
      throw ValueError("no model", Where::current());
    }
    Replica("Test", nn::Linear(2, 3), comm, Where::current());
  });
  EXPECT_EQ(errors[2], "no model");
  for (const int rank : {0, 1}) {
    const std::string& text = errors[static_cast<std::size_t>(rank)];
    EXPECT_NE(text.find(concat(" on rank ", rank, ": the group must be whole; got a failure of ",
                               "rank 2: no model")),
              std::string::npos)
        << text;
  }
}

TEST(ReplicaTest, AParameterThatIsTrainedLaterIsToldOnItsRank) {
  const Errors errors = errors_of([](Communicator& comm) {
    nn::Linear linear(2, 3);
    linear.bias.set_requires_grad(false);
    const Replica replica("Test", linear, comm, Where::current());
    if (comm.rank() == 1) linear.bias.set_requires_grad();
    replica.settle(Where::current());
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(
      errors[1],
      "Test: a parameter that was frozen when it was made must stay so; got one of shape (3,) "
      "that requires a gradient now; make a new one");
  EXPECT_EQ(errors[2], "");
}

}  // namespace
}  // namespace ringrad
