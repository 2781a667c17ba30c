#include <gtest/gtest.h>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/collective_values.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::input_of;

TEST(ThreadMessagesTest, ArriveInOrderWithTheirValues) {
  constexpr int kMessages = 200;  // far more than a channel has slots
  run_ranks(2, [](Communicator& comm) {
    for (int k = 0; k < kMessages; ++k) {
      const Tensor x = full({k % 7}, comm.rank() == 0 ? k : -1, {.dtype = DType::int32});
      if (comm.rank() == 0)
        comm.send(x, 1);
      else
        comm.recv(x, 0);
      expect_same_bits(x, full({k % 7}, k, {.dtype = DType::int32}));
    }
  });
}

TEST(ThreadMessagesTest, CarryEveryDType) {
  run_ranks(2, [](Communicator& comm) {
    for (DType dtype : testing::kAllDTypes) {
      const Tensor x = input_of(dtype, ReduceOp::max, comm.rank(), 100);
      if (comm.rank() == 1) comm.send(x, 0);
      if (comm.rank() == 0) {
        comm.recv(x, 1);
        expect_same_bits(x, input_of(dtype, ReduceOp::max, 1, 100));
      }
    }
  });
}

// All ranks send before they receive. A channel has room, so no rank waits forever.
TEST(ThreadMessagesTest, ARingOfRanksMaySendFirst) {
  for (int n : {2, 3, 5})
    run_ranks(n, [&](Communicator& comm) {
      const Tensor mine = full({3}, comm.rank());
      const Tensor theirs = empty({3});
      const int left = (comm.rank() + n - 1) % n;
      comm.send(mine, (comm.rank() + 1) % n);
      comm.recv(theirs, left);
      expect_same_bits(theirs, full({3}, left));
    });
}

TEST(ThreadMessagesTest, MixWithCollectives) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = full({2}, comm.rank() + 1);
    if (comm.rank() == 0) comm.send(x, 1);
    comm.all_reduce(x);
    testing::expect_close(x, {3, 3});
    if (comm.rank() == 1) {
      comm.recv(x, 0);
      testing::expect_close(x, {1, 1});
    }
  });
}

TEST(ThreadMessagesTest, AnotherShapeThanSentNamesBothAndBreaksTheGroup) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          if (comm.rank() == 0) comm.send(ones({4}), 1);
          if (comm.rank() == 1) comm.recv(ones({5}), 0);
          comm.barrier();
        });
      },
      "recv(float32, 5 elements, from 0) #1 on rank 1: the message must be float32, 4 elements as "
      "sent by rank 0; got a tensor of float32, 5 elements");
}

// The sender's failed_rank() is its own number, as where the culprit is unknown.
TEST(ThreadMessagesTest, AnotherShapeThanSentIsBlamedOnNobody) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 0) comm.send(ones({4}), 1);
    if (comm.rank() == 1)
      expect_throws<CollectiveError>([&] { comm.recv(ones({5}), 0); }, "the message must be");
    while (comm.failed_rank() < 0) std::this_thread::yield();
    EXPECT_EQ(comm.failed_rank(), comm.rank());
    expect_throws<CollectiveError>([&] { comm.barrier(); },
                                   "got a failure of an unknown rank: recv(");
  });
}

TEST(ThreadMessagesTest, AMessageThatNeverComesEndsAtTheDeadline) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2,
                  [](Communicator& comm) {
                    if (comm.rank() == 0) comm.recv(ones({4}), 1);
                    if (comm.rank() == 1) comm.recv(ones({4}), 0);
                  },
                  {.deadline = std::chrono::milliseconds(50)});
      },
      "must send within 0.05 s; got no message");
}

TEST(ThreadMessagesTest, AReceiverThatNeverTakesEndsAtTheDeadline) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2,
                  [](Communicator& comm) {
                    for (int k = 0; k < 10; ++k) comm.send(ones({4}), 1 - comm.rank());
                  },
                  {.deadline = std::chrono::milliseconds(50)});
      },
      "must receive within 0.05 s; got 4 messages that it has not taken");
}

TEST(ThreadMessagesTest, ASenderThatLeftIsNotWaitedFor) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          if (comm.rank() == 0) comm.recv(ones({4}), 1);
        });
      },
      "recv(float32, 4 elements, from 1) #1 on rank 0: every rank must take part; got rank 1, "
      "which "
      "has left");
}

TEST(ThreadMessagesTest, WhatWasSentBeforeLeavingArrives) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = full({2}, comm.rank() + 1);
    if (comm.rank() == 1) return comm.send(x, 0);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    comm.recv(x, 1);
    testing::expect_close(x, {2, 2});
  });
}

}  // namespace
}  // namespace ringrad
