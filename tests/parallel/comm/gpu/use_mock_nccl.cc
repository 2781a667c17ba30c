#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"

#include <dlfcn.h>

#include <memory>
#include <thread>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/tests/parallel/comm/gpu/wait_for_word.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

int current_device() {
  int device = -1;
  RINGRAD_CUDA_CHECK(cudaGetDevice(&device), Where::current());
  return device;
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  RINGRAD_CUDA_CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), Where::current());
  return memory;
}

void copy(int device, void* stream, void* to, const void* from, std::size_t bytes) {
  const DeviceGuard guard(Device(DeviceType::cuda, device));
  RINGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)),
                     Where::current());
}

void call(int device, void* stream, void (*function)(void*), void* argument) {
  const DeviceGuard guard(Device(DeviceType::cuda, device));
  RINGRAD_CUDA_CHECK(cudaLaunchHostFunc(stream_of(stream), function, argument), Where::current());
}

void wait(int device, void* stream, const std::uint64_t* word) {
  const Device gpu(DeviceType::cuda, device);
  const StreamGuard guard(Stream(gpu, stream_of(stream)));
  wait_for_word(gpu, word);
}

template <class Function>
Function find(const char* symbol) {
  void* library = dlopen(kMockNcclFile, RTLD_NOW | RTLD_LOCAL);
  RINGRAD_CHECK(library, Error, Where::current(), "mock_nccl: must open; got ", dlerror());
  return reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

void use_mock_nccl(const MockNcclFaults& faults) {
  find<MockNcclConfigure>(kMockNcclConfigure)({current_device, allocate_pinned, copy, call, wait},
                                              faults);
}

MockNcclState mock_nccl_state() { return find<MockNcclInspect>(kMockNcclInspect)(); }

void run_nccl_ranks(int n, const std::function<void(Communicator&)>& body,
                    std::chrono::nanoseconds deadline) {
  auto hosts = make_thread_group(n, {.deadline = deadline});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank, host = std::move(hosts[rank])]() mutable {
      const DefaultDeviceGuard guard(Device(DeviceType::cuda, rank));
      try {
        const auto comm = with_nccl(std::move(host), default_device(),
                                    {.deadline = deadline, .library = kMockNcclFile});
        body(*comm);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ringrad::testing
