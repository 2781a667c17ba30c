// A process is killed while Gloo writes or reads a message. The library does not tell those who
// wait for that message (gloo_context.h). The other rank must get its error all the same, long
// before the deadline of a minute. Likewise where ranks connect.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "ringrad/core/view.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/tests/parallel/comm/backend_errors.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using testing::error_of;
using testing::expect_contains;

constexpr std::int64_t kCount = 8 << 20;  // elements: far more than a socket holds

const testing::Join kGloo = [](Store& store, int rank, int world_size) {
  return join_gloo_group(store, "test", rank, world_size);
};

// Kills the process once the first element of x is no longer 0. The system reads it: the library
// writes it at the same time.
void kill_when_written(const Tensor& x, pid_t process) {
  const Descriptor memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(memory.is_open());
  float first = 0;
  const auto place = reinterpret_cast<off_t>(x.raw_data());
  while (pread(memory.number(), &first, sizeof first, place) == sizeof first && first == 0) {
  }
  kill(process, SIGKILL);
}

/// All ranks make a call. In `into`, zeros, arrives what the other rank has in `from`, ones.
using Call = std::function<void(Communicator&, const Tensor& into, const Tensor& from)>;

// Rank 1 is killed when the first bytes have come to `receiver`, which ends rank 0's call.
void expect_rank_1_named(int receiver, const Call& call) {
  testing::Processes processes(2, kGloo, [&](Communicator& comm) -> std::string {
    const Tensor process = full({1}, getpid(), {.dtype = DType::int64});
    comm.broadcast(process, 1);
    const Tensor into = zeros({2 * kCount}), from = ones({2 * kCount});
    std::thread killer;
    if (comm.rank() == receiver)
      killer = std::thread([&] { kill_when_written(into, process.item<pid_t>()); });
    const std::string error = error_of([&] {
      for (;;) call(comm, into, from);
    });
    if (killer.joinable()) killer.join();
    expect_contains(error,
                    "on rank 0: every rank must take part; got no sign of life from rank 1,");
    return "";
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(1), -SIGKILL);
}

// A fifth message waits for the first to be taken. The receiver leaves the sender time to be there.
TEST(GlooBrokenMessageTest, EndsASend) {
  expect_rank_1_named(1, [](Communicator& comm, const Tensor& into, const Tensor& from) {
    const Tensor small = ones({1});
    if (comm.rank() == 0) {
      comm.send(from, 1);
      for (int i = 0; i < 3; ++i) comm.send(small, 1);
    }
    comm.barrier();
    if (comm.rank() == 0) return comm.send(small, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    comm.recv(into, 0);
    for (int i = 0; i < 4; ++i) comm.recv(small, 0);
  });
}

TEST(GlooBrokenMessageTest, EndsARecv) {
  expect_rank_1_named(0, [](Communicator& comm, const Tensor& into, const Tensor& from) {
    comm.rank() == 1 ? comm.send(from, 0) : comm.recv(into, 1);
  });
}

TEST(GlooBrokenMessageTest, EndsABroadcast) {
  for (const int root : {0, 1})
    expect_rank_1_named(1 - root, [=](Communicator& comm, const Tensor& into, const Tensor& from) {
      comm.broadcast(comm.rank() == root ? from : into, root);
    });
}

TEST(GlooBrokenMessageTest, EndsAnAllGather) {
  expect_rank_1_named(1, [](Communicator& comm, const Tensor& into, const Tensor& from) {
    comm.all_gather(into, view::slice(from, 0, 0, kCount));
  });
}

TEST(GlooBrokenMessageTest, EndsAnAllToAll) {
  expect_rank_1_named(1, [](Communicator& comm, const Tensor& into, const Tensor& from) {
    comm.all_to_all(into, from);
  });
}

// A rank that leaves waits until its messages are taken, but not by the dead.
TEST(GlooBrokenMessageTest, EndsLeaving) {
  expect_rank_1_named(1, [](Communicator& comm, const Tensor& into, const Tensor& from) {
    {
      const auto pair = comm.split(0);
      pair->rank() == 0 ? pair->send(from, 1) : pair->recv(into, 0);
    }
    comm.barrier();
  });
}

// Rank 0 has told what it wants, and dies before the others can connect to it.
TEST(GlooBrokenMessageTest, EndsASplit) {
  const testing::Join join = [](Store& store, int rank, int world_size) {
    TransportOptions options;
    options.join_timeout = std::chrono::seconds(3);
    return join_gloo_group(store, "test", rank, world_size, options);
  };
  testing::Processes processes(3, join, [](Communicator& comm) -> std::string {
    if (comm.rank() == 0) {
      const Options numbers{.dtype = DType::int64, .device = Device()};
      comm.all_gather(zeros({3, 2}, numbers), zeros({2}, numbers));
      raise(SIGKILL);
    }
    expect_contains(error_of([&] { comm.split(0); }), "got no sign of life from rank 0,");
    EXPECT_EQ(comm.failed_rank(), 0);
    return "";
  });
  EXPECT_EQ(processes.wait(0), -SIGKILL);
  for (const int rank : {1, 2}) EXPECT_EQ(processes.wait(rank), 0);
}

}  // namespace
}  // namespace ringrad
