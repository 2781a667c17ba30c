// Messages between GPUs, which are simulated if there are no real ones: the hosts queue the
// messages and do not wait for a GPU.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/parallel/comm/collective_values.h"
#include "ringrad/tests/parallel/comm/gpu/on_gpus.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/stall.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::input_of;
using testing::on_gpus;
using testing::Stall;

class GpuMessagesTest : public testing::NeedsGpu {};

// The ranks learn each other's GPUs. Later messages stay on GPUs.
void meet(Communicator& comm) { comm.all_reduce(ones({1})); }

// --- Values ---

// More messages than a channel has slots, around a ring, so that every rank sends and receives.
TEST_F(GpuMessagesTest, ArriveInOrderWithTheirValues) {
  for (const int num_devices : {1, 3})
    on_gpus(3, num_devices, [](Communicator& comm) {
      meet(comm);
      const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
      for (int k = 0; k < 60; ++k) {
        const std::int64_t count = k % 7 * (k % 5) * 1000;
        const DType dtype = testing::kAllDTypes[k % std::size(testing::kAllDTypes)];
        const Tensor x = empty({count}, {.dtype = dtype});
        comm.send(input_of(dtype, ReduceOp::max, comm.rank() + k, count), right);
        comm.recv(x, left);
        expect_same_bits(x, input_of(dtype, ReduceOp::max, left + k, count));
      }
    });
}

// Messages keep one order, whether they are sent before or after the ranks have met, and whether
// their tensors are on the CPU, on the rank's GPU or on another GPU.
TEST_F(GpuMessagesTest, OfAllDevicesArriveInOneOrder) {
  on_gpus(2, 2, [](Communicator& comm) {
    const std::vector<Device> devices = {Device(), default_device(),
                                         Device(DeviceType::cuda, num_cuda_devices() - 1)};
    const auto device_of = [&](int k) { return devices[static_cast<std::size_t>(k % 3)]; };
    const auto exchange = [&](int k) {
      if (comm.rank() == 0) return comm.send(full({k}, k, {.device = device_of(k)}), 1);
      const Tensor x = empty({k}, {.device = device_of(k / 3)});
      comm.recv(x, 0);
      EXPECT_EQ(x.to_vector<float>(),
                std::vector<float>(static_cast<std::size_t>(k), static_cast<float>(k)));
    };
    if (comm.rank() == 0)  // rank 1 receives these after the ranks have met
      for (int k = 0; k < 3; ++k) exchange(k);
    meet(comm);
    for (int k = comm.rank() == 0 ? 3 : 0; k < 40; ++k) exchange(k);
  });
}

// This holds even if blocks are reused at once and slots must grow.
TEST_F(GpuMessagesTest, ATensorMayChangeOrEndRightAfterItsSend) {
  set_cuda_caching(true);
  for (const int num_devices : {1, 2})
    on_gpus(2, num_devices, [](Communicator& comm) {
      meet(comm);
      const Stream side(default_device());
      const StreamGuard guard(side);
      for (int k = 1; k <= 30; ++k) {
        const std::int64_t count = 10 * k * k;
        const Tensor x = full({count}, comm.rank() == 0 ? k : -k);
        if (comm.rank() == 0) {
          comm.send(x, 1);
          kernels::fill_(x, -k);
          comm.send(full({count}, 2 * k), 1);
          full({count}, -k);  // perhaps in the freed tensor's memory
          continue;
        }
        for (const int expected : {k, 2 * k}) {
          comm.recv(x, 0);
          EXPECT_EQ(x.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(count),
                                                             static_cast<float>(expected)));
        }
      }
    });
}

// A message sent from one stream is received on another one. All streams use the same slots.
TEST_F(GpuMessagesTest, FollowTheCurrentStreams) {
  on_gpus(2, 2, [](Communicator& comm) {
    meet(comm);
    for (int k = 1; k <= 12; ++k) {
      const Stream side(default_device());
      const StreamGuard guard(side);
      const Tensor x = full({1000 * k}, comm.rank() + k);
      if (comm.rank() == 0)
        comm.send(x, 1);
      else
        comm.recv(x, 0);
      kernels::add_(x, ones({1000 * k}));
      EXPECT_EQ(x.to_vector<float>(),
                std::vector<float>(static_cast<std::size_t>(1000 * k), static_cast<float>(k + 1)));
    }
  });
}

// --- No host waits for a GPU ---

TEST_F(GpuMessagesTest, TheHostsGoOnWhileTheSendersGpuStandsStill) {
  Stall stall;
  on_gpus(2, 2, [&](Communicator& comm) {
    meet(comm);
    const Stream own(default_device());
    const StreamGuard guard(own);
    const Tensor x = full({1000}, comm.rank());
    if (comm.rank() == 0) {
      stall.begin();
      const Event over(own);
      kernels::fill_(x, 7);
      comm.send(x, 1);
      comm.barrier();  // rank 1's host has received the message
      EXPECT_FALSE(over.is_done());
      stall.end();
      return;
    }
    comm.recv(x, 0);
    const Event received(own);
    kernels::add_(x, ones({1000}));
    EXPECT_FALSE(received.is_done());
    comm.barrier();
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 8));
  });
}

// The receiver's host may take many messages ahead; the sender's GPU keeps each until the
// receiver's GPU has copied it.
TEST_F(GpuMessagesTest, SlotsAreNotUsedAgainBeforeTheReceiversGpuHasThem) {
  Stall stall;
  on_gpus(2, 2, [&](Communicator& comm) {
    meet(comm);
    const Stream own(default_device());
    const StreamGuard guard(own);
    std::vector<Tensor> received;
    if (comm.rank() == 1) stall.begin();
    for (int k = 0; k < 10; ++k)
      if (comm.rank() == 0)
        comm.send(full({1000}, k), 1);
      else
        comm.recv(received.emplace_back(empty({1000})), 0);
    comm.barrier();
    if (comm.rank() == 0) return;
    stall.end();
    for (std::size_t k = 0; k < received.size(); ++k)
      EXPECT_EQ(received[k].to_vector<float>(), std::vector<float>(1000, static_cast<float>(k)));
  });
}

TEST_F(GpuMessagesTest, OutliveTheCommunicatorOfTheirSender) {
  for (const int num_devices : {1, 2})
    on_gpus(2, num_devices, [](Communicator& comm) {
      for (int round = 0; round < 3; ++round) {
        auto part = comm.split(0);
        meet(*part);
        if (comm.rank() == 0)
          for (int k = 0; k < 4; ++k) part->send(full({5000}, k), 1);
        if (comm.rank() == 0) part.reset();
        comm.barrier();
        const Tensor x = zeros({5000});
        for (int k = 0; k < 4 && comm.rank() == 1; ++k) {
          part->recv(x, 0);
          EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5000, static_cast<float>(k)));
        }
      }
    });
}

// --- Errors ---

TEST_F(GpuMessagesTest, AnotherShapeThanSentNamesBoth) {
  on_gpus(2, 2, [](Communicator& comm) {
    meet(comm);
    if (comm.rank() == 0) return comm.send(ones({4}), 1);
    expect_throws<CollectiveError>(
        [&] { comm.recv(ones({5}), 0); },
        "recv(float32, 5 elements on cuda, from 0) #1 on rank 1: the message must be float32, 4 "
        "elements as sent by rank 0; got a tensor of float32, 5 elements");
  });
}

TEST_F(GpuMessagesTest, AReceiverThatNeverTakesEndsAtTheDeadline) {
  on_gpus(2, 2,
          [](Communicator& comm) {
            meet(comm);
            if (comm.rank() == 1) {
              while (comm.failed_rank() < 0) std::this_thread::yield();
              return;
            }
            for (int k = 0; k < 4; ++k) comm.send(ones({4}), 1);
            expect_throws<CollectiveError>(
                [&] { comm.send(ones({4}), 1); },
                concat("must receive within ", testing::kShortDeadline.count(),
                       " s; got 4 messages that it has not taken"));
          },
          {.deadline = testing::kShortDeadline});  // the first collective loads kernels
}

TEST_F(GpuMessagesTest, ASenderThatLeftIsNotWaitedFor) {
  on_gpus(2, 2, [](Communicator& comm) {
    meet(comm);
    if (comm.rank() == 1) return;
    expect_throws<CollectiveError>([&] { comm.recv(ones({4}), 1); },
                                   "every rank must take part; got rank 1, which has left");
  });
}

// The receiver's host has taken the message. Its GPU waits for the sender's GPU, which never
// reaches the message.
void receive_from_a_gpu_that_stands_still(bool aborts, const GroupOptions& options,
                                          const std::string& error) {
  Stall stall;
  std::atomic<bool> told = false;
  on_gpus(
      2, 2,
      [&](Communicator& comm) {
        meet(comm);
        const Stream own(default_device());
        const StreamGuard guard(own);
        const Tensor x = ones({1000});
        // The first message loads kernels, for which CUDA may wait until the GPU is idle.
        comm.rank() == 0 ? comm.send(x, 1) : comm.recv(x, 0);
        comm.barrier();
        if (comm.rank() == 0) {
          stall.begin();
          comm.send(x, 1);
          comm.barrier();
          if (aborts) comm.abort("enough");
          while (!told) std::this_thread::sleep_for(milliseconds(1));
          stall.end();
        } else {
          comm.recv(x, 0);
          comm.barrier();
          expect_throws<CollectiveError>([&] { x.to_vector<float>(); }, error);
          told = true;
        }
        EXPECT_THROW(comm.send(x, 1 - comm.rank()), CollectiveError);
        const Event all(own);
        while (!all.is_done()) std::this_thread::yield();
      },
      options);
}

TEST_F(GpuMessagesTest, ASendersGpuThatIsLateEndsTheWaitOfTheReceiver) {
  receive_from_a_gpu_that_stands_still(
      /*aborts=*/false, {.deadline = testing::kShortDeadline},
      concat("recv(float32, 1000 elements on cuda, from 0) #2 on rank 1: every rank must arrive on "
             "its GPU within ",
             testing::kShortDeadline.count(), " s; got no end of it"));
}

TEST_F(GpuMessagesTest, AnAbortEndsTheWaitForAMessage) {
  receive_from_a_gpu_that_stands_still(/*aborts=*/true, {}, "got a failure of rank 0: enough");
}

}  // namespace
}  // namespace ringrad
