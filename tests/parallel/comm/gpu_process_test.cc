// Ranks as processes whose tensors lie on GPUs, simulated ones where there are none: CUDA IPC.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "core/stream.h"
#include "kernels/fill.h"
#include "parallel/comm/process_group.h"
#include "tests/parallel/comm/checked_collectives.h"
#include "tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::Body;
using testing::expect_exact;
using testing::Processes;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};

// This process must not touch a GPU, or those that it forks could not.
void wake_gpus() {
  if (num_cuda_devices() > 0) synchronize("cuda");
}

Body on_gpu(int num_devices, const std::function<void(Communicator&)>& body) {
  return [=](Communicator& comm) -> std::string {
    if (num_cuda_devices() == 0) return "";
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

TEST(GpuProcessTest, AllCollectivesAreExact) {
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

// More than one segment holds, in place and elsewhere.
TEST(GpuProcessTest, LargeTensorsInSharedMemoryAndElsewhere) {
  ProcessGroupOptions options;
  options.all_reduce = "ring";
  on_processes(2,
               on_gpu(2,
                      [](Communicator& comm) {
                        constexpr std::int64_t kCount = 10'000'000;
                        const Tensor shared = comm.empty_shared({kCount}, {.dtype = DType::uint8});
                        const Tensor other =
                            full({kCount}, comm.rank() + 1, {.dtype = DType::float32});
                        EXPECT_TRUE(shared.device().is_cuda());
                        for (int i = 0; i < 3; ++i) {
                          kernels::fill_(shared, comm.rank() + 1);
                          comm.all_reduce(shared);
                          comm.all_reduce(other, ReduceOp::max);
                          expect_all(shared, 3);
                          expect_all(other, 2);
                        }
                      }),
               options);
}

TEST(GpuProcessTest, KernelsOfProcessesWaitForEachOther) {
  for (const DeviceAlgorithm algorithm :
       {DeviceAlgorithm::one_shot_kernel, DeviceAlgorithm::two_shot_kernel,
        DeviceAlgorithm::ring_kernel}) {
    ProcessGroupOptions options;
    options.device_all_reduce = algorithm;
    on_processes(2,
                 on_gpu(2,
                        [](Communicator& comm) {
                          for (const std::int64_t count : {1, 1000, 5000, 3})
                            expect_exact(comm, {Collective::all_reduce, DType::float32,
                                                ReduceOp::sum, 0, count});
                        }),
                 options);
  }
}

TEST(GpuProcessTest, SubgroupsAndMessages) {
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

TEST(GpuProcessTest, ARankThatIsKilledIsNamedAndTheOthersGoOn) {
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
              // What the dead rank may have left unfinished stays as it is until the process ends.
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

}  // namespace
}  // namespace ringrad
