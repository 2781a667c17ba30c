// The named machines, which agree with the simulator's where it has them.

#include "ringrad/parallel/plan/predict/topology.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ringrad/sim/clock.h"

namespace ringrad {
namespace {

void expect_link(const LinkCost& link, const sim::Link& simulated) {
  EXPECT_DOUBLE_EQ(link.alpha_s, simulated.latency_us * 1e-6);
  EXPECT_DOUBLE_EQ(link.beta_s_per_byte, 1 / (simulated.gbps * 1e9));
}

TEST(TopologyTest, HasTheSimulatorsFigures) {
  for (const char* name : {"nvlink8", "pcie4", "two_hosts"})
    for (const int n : {1, 2, 5, 8, 32}) {
      const Topology topology = named_topology(name, n);
      const sim::Topology simulated = sim::Topology::named(name, n);
      EXPECT_EQ(topology.num_devices, n);
      EXPECT_EQ(topology.links.ranks_per_host, simulated.devices_per_host) << name << ' ' << n;
      expect_link(topology.links.within_host, simulated.peer);
      expect_link(topology.links.between_hosts, simulated.network);
      EXPECT_DOUBLE_EQ(topology.device.flops_per_s, simulated.peak_gflops * 1e9);
      EXPECT_DOUBLE_EQ(topology.device.memory_bytes_per_s, simulated.memory_gbps * 1e9);
      EXPECT_DOUBLE_EQ(topology.device.launch_s, simulated.launch_us * 1e-6);
    }
}

TEST(TopologyTest, HostsHaveEightDevicesEach) {
  const Topology topology = named_topology("hosts:1250", 10'000);
  EXPECT_EQ(topology.links.ranks_per_host, 8);
  EXPECT_GT(topology.links.between_hosts.beta_s_per_byte,
            topology.links.within_host.beta_s_per_byte);
  EXPECT_NO_THROW(named_topology("hosts:2", 9));
}

TEST(TopologyTest, AKernelTakesWhatBoundsIt) {
  const Topology topology = named_topology("nvlink8", 1);
  const DeviceFigures& device = topology.device;
  EXPECT_DOUBLE_EQ(topology.kernel_seconds(0, 0, 1), device.launch_s);
  EXPECT_DOUBLE_EQ(topology.kernel_seconds(device.flops_per_s, 1, 0.5), device.launch_s + 2);
  EXPECT_DOUBLE_EQ(topology.kernel_seconds(1, device.memory_bytes_per_s, 1), device.launch_s + 1);
  for (const double efficiency : {0.0, -1.0, 1.1})
    EXPECT_THROW(topology.kernel_seconds(1, 1, efficiency), std::invalid_argument);
}

TEST(TopologyTest, RefusesUnknownNamesAndTooManyDevices) {
  for (const char* name : {"", "nvlink", "hosts", "hosts:", "hosts:0", "hosts:-1", "hosts:2x",
                           "hosts:99999999999", "hosts: 2"})
    EXPECT_THROW(named_topology(name, 1), std::invalid_argument) << name;
  EXPECT_THROW(named_topology("nvlink8", 0), std::invalid_argument);
  EXPECT_THROW(named_topology("pcie4", -1), std::invalid_argument);
  EXPECT_THROW(named_topology("nvlink8", 33), std::invalid_argument);
  EXPECT_THROW(named_topology("hosts:2", 17), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
