// Ranks as processes whose tensors are on GPUs (simulated if there are no real ones), shared by
// CUDA IPC.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/parallel/comm/gpu/kernel_all_reduce.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::Body;
using testing::expect_exact;
using testing::Processes;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};

// This process must not touch a GPU: its forked children could then not use one.
class GpuProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool has_gpus = [] {
      const pid_t child = fork();
      if (child == 0) _exit(num_cuda_devices() > 0 ? 0 : 1);
      int status = -1;
      return waitpid(child, &status, 0) == child && status == 0;
    }();
    if (!has_gpus && testing::num_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

void wake_gpus() { synchronize("cuda"); }

Body on_gpu(int num_devices, const std::function<void(Communicator&)>& body) {
  return [=](Communicator& comm) -> std::string {
    const int devices = std::min(num_devices, num_cuda_devices());
    const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % devices));
    const Stream own(default_device());
    const StreamGuard on_own(own);
    body(comm);
    return ::testing::Test::HasFailure() ? "a check failed" : "";
  };
}

void on_processes(int world_size, const Body& body, const ProcessGroupOptions& options = {}) {
  Processes processes(world_size, options, body, wake_gpus);
  for (int rank = 0; rank < world_size; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

TEST_F(GpuProcessTest, ProcessesDoWhatEveryBackendDoes) {
  on_processes(2, on_gpu(2, testing::run_backend_suite));
}

TEST_F(GpuProcessTest, AllCollectivesAreExact) {
  for (const int n : {1, 2, 4})
    for (const int num_devices : {1, 4})
      on_processes(n, on_gpu(num_devices, [](Communicator& comm) {
                     for (const Collective collective : kAll)
                       for (const DType dtype : {DType::float32, DType::bfloat16, DType::bool_})
                         for (const std::int64_t count : {0, 1, 37, 5000})
                           expect_exact(comm, {collective, dtype, ReduceOp::max,
                                               comm.world_size() - 1, count});
                   }));
}

void expect_all(const Tensor& x, float value) {
  const auto values = x.to_vector<float>();
  EXPECT_EQ(std::count(values.begin(), values.end(), value), x.numel());
}

// Tensors larger than one segment, in shared memory and elsewhere.
TEST_F(GpuProcessTest, LargeTensorsAreExactInSharedMemoryAndElsewhere) {
  ProcessGroupOptions options;
  options.all_reduce = "ring";
  on_processes(2,
               on_gpu(2,
                      [](Communicator& comm) {
                        constexpr std::int64_t kCount = 9'000'000;
                        const Tensor shared = comm.empty_shared({kCount}, {.dtype = DType::uint8});
                        const Tensor other =
                            full({kCount}, comm.rank() + 1, {.dtype = DType::float32});
                        EXPECT_TRUE(shared.device().is_cuda());
                        for (int i = 0; i < 2; ++i) {
                          kernels::fill_(shared, comm.rank() + 1);
                          comm.all_reduce(shared);
                          comm.all_reduce(other, ReduceOp::max);
                          expect_all(shared, 3);
                          expect_all(other, 2);
                        }
                        comm.barrier();  // who leaves long before keeps memory
                      }),
               options);
}

// Four sums of ranks on two GPUs, by each algorithm in one kernel. `num_kernels` of the four must
// run as kernels.
void expect_kernel_sums(int world_size, std::uint64_t num_kernels) {
  for (const DeviceAlgorithm algorithm :
       {DeviceAlgorithm::one_shot_kernel, DeviceAlgorithm::two_shot_kernel,
        DeviceAlgorithm::ring_kernel}) {
    ProcessGroupOptions options;
    options.device_all_reduce = algorithm;
    on_processes(world_size,
                 on_gpu(2,
                        [&](Communicator& comm) {
                          for (const std::int64_t count : {1, 1000, 5000, 3})
                            expect_exact(comm, {Collective::all_reduce, DType::float32,
                                                ReduceOp::sum, 0, count});
                          EXPECT_EQ(num_kernel_all_reduces(), num_kernels);
                        }),
                 options);
  }
}

TEST_F(GpuProcessTest, KernelsOfProcessesWaitForEachOther) { expect_kernel_sums(2, 4); }

// Two ranks of three share a GPU, which never runs both processes' kernels at the same time.
TEST_F(GpuProcessTest, ProcessesThatShareAGpuUseThePlan) { expect_kernel_sums(3, 0); }

TEST_F(GpuProcessTest, SubgroupsAndMessagesAreExact) {
  on_processes(
      4, on_gpu(4, [](Communicator& comm) {
        const auto half = comm.split(comm.rank() % 2);
        for (int i = 0; i < 3; ++i) {
          expect_exact(*half, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 99});
          expect_exact(comm, {Collective::broadcast, DType::float32, ReduceOp::sum, 1, 99});
        }
        const Tensor x = full({10}, comm.rank());
        if (comm.rank() == 0) comm.send(x, 3);
        if (comm.rank() == 3) {
          comm.recv(x, 0);
          EXPECT_EQ(x.to_vector<float>(), std::vector<float>(10, 0));
        }
      }));
}

// More messages than a channel holds, of growing sizes, on changing streams, to GPUs and to the
// CPU.
TEST_F(GpuProcessTest, MessagesStayOnGpus) {
  for (const int num_devices : {1, 3})
    on_processes(3, on_gpu(num_devices, [](Communicator& comm) {
                   comm.all_reduce(ones({1}));  // now the ranks know each other's GPUs
                   const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
                   for (int k = 1; k <= 10; ++k) {
                     const Stream side(default_device());
                     const StreamGuard guard(side);
                     const DType dtype = testing::kAllDTypes[k % std::size(testing::kAllDTypes)];
                     const Tensor x = testing::input_of(dtype, ReduceOp::max, comm.rank(), k * k);
                     const Device to = k % 3 == 0 ? Device() : default_device();
                     const Tensor y = empty({k * k}, {.dtype = dtype, .device = to});
                     comm.send(x, right);
                     kernels::zero_(x);
                     comm.recv(y, left);
                     testing::expect_same_bits(
                         y, testing::input_of(dtype, ReduceOp::max, left, k * k));
                   }
                 }));
}

// What a process has on its GPU is gone with it, so it leaves the group only when the receiver, who
// may come late, has made its copy.
TEST_F(GpuProcessTest, AProcessStaysUntilItsMessagesAreTaken) {
  constexpr milliseconds kLate(1500);
  on_processes(2, on_gpu(2, [=](Communicator& comm) {
                 comm.all_reduce(ones({1}));
                 if (comm.rank() == 0) return comm.send(full({5000}, 7), 1);
                 std::this_thread::sleep_for(kLate);
                 const Tensor x = empty({5000});
                 comm.recv(x, 0);
                 expect_all(x, 7);
               }));
}

// Otherwise they would fill the heap in which each rank publishes its GPU memory.
TEST_F(GpuProcessTest, SubgroupsGiveTheirMemoryBack) {
  ProcessGroupOptions options;
  options.heap_bytes = 3 << 19;
  on_processes(2,
               on_gpu(2,
                      [](Communicator& comm) {
                        for (int i = 0; i < 12; ++i) comm.split(0)->all_reduce(ones({8}));
                      }),
               options);
}

// Each tensor is larger than a segment, and than the tensor before it, so it needs a segment of its
// own. The collective moves only its first bytes: simulated GPUs are slow, and other ranks open the
// whole segment even for these.
TEST_F(GpuProcessTest, TensorsMayGrowWithoutEnd) {
  on_processes(2, on_gpu(2, [](Communicator& comm) {
                 const Options bytes{.dtype = DType::uint8, .device = default_device()};
                 std::size_t held_before = 0;
                 for (int i = 0; i < 20; ++i) {
                   const Tensor large = comm.empty_shared({(33 << 20) + (i << 12)}, bytes);
                   const Tensor x = from_memory(large.raw_data(), {8}, bytes, nullptr);
                   kernels::fill_(x, comm.rank() + i);
                   comm.broadcast(x);
                   EXPECT_EQ(x.to_vector<std::uint8_t>(), std::vector<std::uint8_t>(8, i));
                   comm.barrier();  // all ranks have closed the segments that were retired
                   const std::size_t held = testing::held_of_system().size();
                   if (i == 5) held_before = held;
                   if (i > 5) {
                     EXPECT_EQ(held, held_before) << "size " << i;
                   }
                 }
               }));
}

TEST_F(GpuProcessTest, ARankThatIsKilledIsNamedAndTheOthersGoOn) {
  for (const int delay_ms : {0, 3, 20}) {
    Processes processes(
        3, ProcessGroupOptions{},
        on_gpu(
            3,
            [](Communicator& comm) {
              try {
                for (;;) {
                  const Tensor x = ones({5000});
                  comm.all_reduce(x);
                  if (x.to_vector<float>()[7] != 3) ADD_FAILURE();
                }
              } catch (const Error& error) {
                EXPECT_EQ(comm.failed_rank(), 1) << error.what();
              }
              const auto rest = comm.shrink();
              expect_exact(*rest, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, 1000});
              // Work that the dead rank left unfinished stays as it is until the process ends.
              std::fflush(stdout);
              _exit(::testing::Test::HasFailure() ? 1 : 0);
            }),
        wake_gpus);
    processes.wait_until_all_joined();
    std::this_thread::sleep_for(milliseconds(delay_ms));
    processes.send_signal(1, SIGKILL);
    EXPECT_EQ(processes.wait(1), -SIGKILL);
    for (const int rank : {0, 2}) EXPECT_EQ(processes.wait(rank), 0);
  }
}

// --- Queued work when a rank fails ---

// Both ranks have queued an all_reduce when rank 1's GPU reaches the work queued before it. Rank 0
// must get an error long before the deadline. (A real GPU may reach that work before the host has
// queued the all_reduce; the error's text then differs.)
class QueuedWorkTest : public GpuProcessTest {
 protected:
  void SetUp() override {
    GpuProcessTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(pipe(ended_), 0);
  }
  void TearDown() override {
    for (const int end : ended_)
      if (end >= 0) close(end);
  }

  void expect_early_error(DeviceAlgorithm algorithm, cudaHostFn_t before_rank_1,
                          const std::string& text) {
    ProcessGroupOptions options;
    options.device_all_reduce = algorithm;
    Processes processes(2, options,
                        on_gpu(2,
                               [&](Communicator& comm) {
                                 const Tensor x = ones({1000});
                                 comm.all_reduce(x);
                                 if (comm.rank() == 1) {
                                   Failing failing{&comm, ended_[0]};
                                   cudaLaunchHostFunc(current_stream(default_device()).handle(),
                                                      before_rank_1, &failing);
                                   EXPECT_THROW(comm.all_reduce(x), CollectiveError);
                                 } else {
                                   const auto begin = std::chrono::steady_clock::now();
                                   testing::expect_throws<CollectiveError>(
                                       [&] {
                                         comm.all_reduce(x);
                                         synchronize(default_device());
                                       },
                                       is_cuda_simulated() ? text : "rank 1");
                                   EXPECT_LT(std::chrono::steady_clock::now() - begin,
                                             testing::kPatience);
                                   EXPECT_EQ(comm.failed_rank(), 1);
                                   EXPECT_EQ(write(ended_[1], "x", 1), 1);
                                 }
                                 std::fflush(stdout);
                                 _exit(::testing::Test::HasFailure() ? 1 : 0);
                               }),
                        wake_gpus);
    EXPECT_EQ(processes.wait(0), 0);
    processes.wait(1);
  }

  struct Failing {
    Communicator* comm;
    int others_ended;
  };

  int ended_[2] = {-1, -1};
};

void die(void*) { kill(getpid(), SIGKILL); }

TEST_F(QueuedWorkTest, ADeathEndsKernelsThatWait) {
  for (const DeviceAlgorithm algorithm :
       {DeviceAlgorithm::one_shot_kernel, DeviceAlgorithm::ring_kernel})
    expect_early_error(algorithm, die, "got a broken group while waiting for rank 1");
}

TEST_F(QueuedWorkTest, AWaitForWhatADeadRankHadQueuedIsGivenUp) {
  expect_early_error(DeviceAlgorithm::plan, die, "got a failure of rank 1: it has died");
}

// The sender's host has sent the message; its GPU dies before it reaches the message.
TEST_F(QueuedWorkTest, AWaitForAMessageOfADeadRankIsGivenUp) {
  Processes processes(2, ProcessGroupOptions{},
                      on_gpu(2,
                             [&](Communicator& comm) {
                               const Tensor x = ones({1000});
                               comm.all_reduce(x);
                               if (comm.rank() == 1) {
                                 cudaLaunchHostFunc(current_stream(default_device()).handle(), die,
                                                    nullptr);
                                 comm.send(x, 0);
                                 synchronize(default_device());
                               }
                               testing::expect_throws<CollectiveError>(
                                   [&] {
                                     comm.recv(x, 1);
                                     x.to_vector<float>();
                                   },
                                   "rank 1");
                               std::fflush(stdout);
                               _exit(::testing::Test::HasFailure() ? 1 : 0);
                             }),
                      wake_gpus);
  EXPECT_EQ(processes.wait(1), -SIGKILL);
  EXPECT_EQ(processes.wait(0), 0);
}

TEST_F(QueuedWorkTest, AMessageOnTheGpuOfAProcessThatHasEndedIsRefused) {
  int met[2];  // rank 0 no longer waits for rank 1
  ASSERT_EQ(pipe(met), 0);
  Processes processes(2, ProcessGroupOptions{},
                      on_gpu(2,
                             [&](Communicator& comm) {
                               const Tensor x = ones({1000});
                               comm.all_reduce(x);
                               if (comm.rank() == 1) {
                                 comm.send(x, 0);
                                 char word = 0;
                                 _exit(read(met[0], &word, 1) == 1 ? 0 : 1);
                               }
                               char ended = 0;
                               EXPECT_EQ(write(met[1], "x", 1), 1);
                               EXPECT_EQ(read(ended_[0], &ended, 1), 1);
                               testing::expect_throws<CollectiveError>(
                                   [&] { comm.recv(x, 1); },
                                   "the peer's process must live until its message is received; "
                                   "got the end of rank 1");
                               std::fflush(stdout);
                               _exit(::testing::Test::HasFailure() ? 1 : 0);
                             }),
                      wake_gpus);
  EXPECT_EQ(processes.wait(1), 0);
  EXPECT_EQ(write(ended_[1], "x", 1), 1);
  EXPECT_EQ(processes.wait(0), 0);
  for (const int end : met) close(end);
}

TEST_F(QueuedWorkTest, AnAbortEndsKernelsOfOtherProcesses) {
  expect_early_error(
      DeviceAlgorithm::two_shot_kernel,
      [](void* data) {
        const auto& failing = *static_cast<Failing*>(data);
        failing.comm->abort("enough");
        pollfd ended{failing.others_ended, POLLIN, 0};
        poll(&ended, 1, 20'000);
      },
      "got a broken group while waiting for rank 1");
}

}  // namespace
}  // namespace ringrad
