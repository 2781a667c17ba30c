// Simulated time: how long work takes, which work overlaps, and that the record agrees.

#include "ringrad/sim/clock.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/simulator.h"

namespace ringrad::sim {
namespace {

__global__ void do_nothing() {}

constexpr std::size_t kBytes = 50'000'000;  // a millisecond over PCI Express

class ClockTest : public testing::Test {
 protected:
  ClockTest() { reset(); }

  struct Timer {
    explicit Timer(cudaStream_t on) : stream(on) {
      EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
      EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
      EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
    }
    ~Timer() {
      EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
      EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
    }
    float stop_ms() {
      EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
      EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
      float ms = 0;
      EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
      return ms;
    }
    cudaStream_t stream;
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static void* allocate(std::size_t bytes = kBytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    return p;
  }
  static void* allocate_host(std::size_t bytes = kBytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaMallocHost(&p, bytes), cudaSuccess);
    return p;
  }
};

TEST_F(ClockTest, ACopyTakesItsLinksLatencyAndBandwidth) {
  void *device = allocate(), *host = allocate_host();
  const cudaStream_t stream = make_stream();
  Timer timer(stream);
  ASSERT_EQ(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_NEAR(timer.stop_ms(), 1.006, 0.002);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST_F(ClockTest, NoTimePassesBetweenAnEventAndItself) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(launch({"do_nothing", 1, 1}, do_nothing), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  float ms = -1;
  ASSERT_EQ(cudaEventElapsedTime(&ms, event, event), cudaSuccess);
  EXPECT_EQ(ms, 0);
}

TEST_F(ClockTest, AKernelTakesAsLongAsItsArithmeticOrItsMemory) {
  const cudaStream_t stream = make_stream();
  const auto time = [&](double flops, double bytes) {
    Timer timer(stream);
    LaunchConfig config{.name = "do_nothing", .grid = 1, .block = 1, .stream = stream};
    config.flops = flops;
    config.bytes = bytes;
    EXPECT_EQ(launch(config, do_nothing), cudaSuccess);
    return timer.stop_ms();
  };
  EXPECT_NEAR(time(0, 0), 0.003, 0.002);
  EXPECT_NEAR(time(67e9, 0), 1.003, 0.002);
  EXPECT_NEAR(time(67e9, 6.7e9), 2.003, 0.002);
}

// The two directions are two links; each direction is one link, however many streams use it.
TEST_F(ClockTest, CopiesOverlapUnlessTheyShareALink) {
  void *device = allocate(2 * kBytes), *host = allocate_host(2 * kBytes);
  char *second_device = static_cast<char*>(device) + kBytes,
       *second_host = static_cast<char*>(host) + kBytes;
  const cudaStream_t stream = make_stream(), other = make_stream();
  const auto time = [&](bool same_direction) {
    cudaEvent_t fork = nullptr, join = nullptr;
    EXPECT_EQ(cudaEventCreate(&fork), cudaSuccess);
    EXPECT_EQ(cudaEventCreate(&join), cudaSuccess);
    Timer timer(stream);
    EXPECT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other, fork), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
    if (same_direction)
      EXPECT_EQ(cudaMemcpyAsync(second_device, second_host, kBytes, cudaMemcpyHostToDevice, other),
                cudaSuccess);
    else
      EXPECT_EQ(cudaMemcpyAsync(second_host, second_device, kBytes, cudaMemcpyDeviceToHost, other),
                cudaSuccess);
    EXPECT_EQ(cudaEventRecord(join, other), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, join), cudaSuccess);
    const float ms = timer.stop_ms();
    EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(join), cudaSuccess);
    return ms;
  };
  EXPECT_NEAR(time(false), 1.01, 0.01);
  EXPECT_NEAR(time(true), 2.01, 0.01);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST_F(ClockTest, TopologiesDifferInTheirLinks) {
  const Topology nvlink = Topology::named("nvlink8", 8), pcie = Topology::named("pcie4", 4),
                 two_hosts = Topology::named("two_hosts", 8);
  EXPECT_GT(nvlink.link(0, 7).gbps, pcie.link(0, 3).gbps);
  EXPECT_EQ(two_hosts.link(0, 3).gbps, nvlink.link(0, 3).gbps);
  EXPECT_GT(two_hosts.link(3, 4).latency_us, nvlink.link(3, 4).latency_us);
  EXPECT_EQ(pcie.link(Op::kHost, 2).gbps, pcie.host.gbps);
}

TEST_F(ClockTest, RefusesTopologiesThatAreNone) {
  EXPECT_THROW(Topology::named("ring5", 8), std::invalid_argument);
  EXPECT_THROW(Topology::named("nvlink8", 0), std::invalid_argument);
  EXPECT_THROW(Topology::named("nvlink8", 33), std::invalid_argument);
}

TEST_F(ClockTest, DevicesOfDifferentHostsAreNoPeers) {
  reset({.topology = "two_hosts"});
  int can_access = -1;
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can_access, 0, 3), cudaSuccess);
  EXPECT_EQ(can_access, 1);
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can_access, 0, 4), cudaSuccess);
  EXPECT_EQ(can_access, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(4, 0), cudaErrorPeerAccessUnsupported);
}

TEST_F(ClockTest, TheTraceHoldsWhatRan) {
  chrome_trace();
  ASSERT_EQ(launch({"do_nothing", 1, 1}, do_nothing), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto trace = nlohmann::json::parse(chrome_trace());
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["name"], "do_nothing");
  EXPECT_EQ(spans[0]["cat"], "kernel");
  EXPECT_NEAR(spans[0]["dur"].get<double>(), 3, 1e-9);
}

}  // namespace
}  // namespace ringrad::sim
