#include "ringrad/sim/clock.h"

#include <algorithm>
#include <stdexcept>

namespace ringrad::sim {
namespace {

constexpr Link kNvlink{.latency_us = 2, .gbps = 450};
constexpr Link kPcie{.latency_us = 6, .gbps = 50};
constexpr Link kInfiniband{.latency_us = 10, .gbps = 50};

// One gigabyte per second is a thousand bytes per microsecond.
double transfer_us(double bytes, double gbps) { return bytes / (gbps * 1e3); }

}  // namespace

Topology Topology::named(const std::string& name, int num_devices) {
  if (num_devices < 1 || num_devices > 32)
    throw std::invalid_argument("topology: the number of devices must be in [1, 32]; got " +
                                std::to_string(num_devices));
  Topology t{.name = name,
             .num_devices = num_devices,
             .devices_per_host = num_devices,
             .host = kPcie,
             .peer = kNvlink,
             .network = kInfiniband,
             .memory_gbps = 3350,
             .peak_gflops = 67'000,
             .launch_us = 3};
  if (name == "nvlink8") return t;
  if (name == "pcie4") {
    t.peer = kPcie;
    return t;
  }
  if (name == "two_hosts") {
    t.devices_per_host = (num_devices + 1) / 2;
    return t;
  }
  throw std::invalid_argument("topology: must be nvlink8, pcie4 or two_hosts; got '" + name + "'");
}

Link Topology::link(int source, int destination) const {
  if (source == Op::kHost || destination == Op::kHost) return host;
  if (source == destination) return {1, memory_gbps / 2};  // reads and writes
  return source / devices_per_host == destination / devices_per_host ? peer : network;
}

double Clock::duration_us(const Op& op) const {
  switch (op.kind) {
    case Op::Kind::kernel:
      return topology_.launch_us + std::max(op.flops / (topology_.peak_gflops * 1e3),
                                            transfer_us(op.bytes, topology_.memory_gbps));
    case Op::Kind::copy: {
      const Link link = topology_.link(op.source, op.destination);
      return link.latency_us + transfer_us(op.bytes, link.gbps);
    }
    case Op::Kind::host_function:
    case Op::Kind::marker:
      break;
  }
  return 0;
}

double Clock::earliest_us(const Op& op) const {
  const auto free_us = [](const auto& all, const auto& key) {
    const auto it = all.find(key);
    return it == all.end() ? 0.0 : it->second;
  };
  if (op.kind == Op::Kind::kernel)
    return std::max(op.begin_us, free_us(devices_free_us_, op.device));
  if (op.kind == Op::Kind::copy)
    return std::max(op.begin_us, free_us(links_free_us_, std::pair(op.source, op.destination)));
  return op.begin_us;
}

void Clock::finish(Op& op) {
  op.end_us = op.begin_us + duration_us(op);
  const auto occupy = [&](double& free_us) { free_us = std::max(free_us, op.end_us); };
  if (op.kind == Op::Kind::kernel) occupy(devices_free_us_[op.device]);
  if (op.kind == Op::Kind::copy) occupy(links_free_us_[{op.source, op.destination}]);
  if (recording_ && op.kind != Op::Kind::marker)
    events_.push_back({op.kernel.name, op.kind, op.device, op.stream, op.begin_us, op.end_us});
}

}  // namespace ringrad::sim
