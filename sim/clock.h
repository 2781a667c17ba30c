// Clock: simulated time that the devices' work takes, in microseconds.
//
//     kernel     launch + max(flops / peak, bytes / memory bandwidth)   one at a time per device
//     copy       latency + bytes / bandwidth of its link                one at a time per direction
//
// An op begins when it has been submitted, its predecessors have ended and its resources are free.
// The devices' figures come from a Topology; a kernel's flops and bytes come from its launch. All
// of this is simulated: it shows the order and overlap of a program, not the speed of a GPU.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/sim/op.h"

namespace ringrad::sim {

struct Link {
  double latency_us = 0;
  double gbps = 0;  // gigabytes per second, in each direction
};

/// What the devices are and how they are connected.
struct Topology {
  std::string name;
  int num_devices = 0;
  int devices_per_host = 0;
  Link host;     // between a device and its host's memory
  Link peer;     // between devices of one host
  Link network;  // between devices of different hosts
  double memory_gbps = 0;
  double peak_gflops = 0;
  double launch_us = 0;

  /// nvlink8: all devices connected by NVLink; pcie4: all on a PCI Express switch; two_hosts: half
  /// of them on each host, with NVLink inside and a network between. A digit in a name is the usual
  /// number of devices. All use roughly an H100's figures.
  /// Throws: std::invalid_argument for another name, or unless num_devices is in [1, 32]
  static Topology named(const std::string& name, int num_devices);

  /// The link that a copy uses; source and destination are devices or Op::kHost.
  Link link(int source, int destination) const;
};

class Clock {
 public:
  explicit Clock(Topology topology) : topology_(std::move(topology)) {}

  /// From now on events() records the ops that run.
  void record() { recording_ = true; }

  const Topology& topology() const { return topology_; }

  /// The earliest time at which the op can begin: its resources must be free, and its predecessors'
  /// end must have been noted in begin_us.
  double earliest_us(const Op& op) const;
  /// Called before an op runs: sets begin_us.
  void begin(Op& op) { op.begin_us = earliest_us(op); }
  /// Called after an op has run: sets end_us.
  void finish(Op& op);

  struct Event {
    std::string name;
    Op::Kind kind;
    int device, stream;
    double begin_us, end_us;
  };
  /// The ops that have run since record(), without markers.
  const std::vector<Event>& events() const { return events_; }

 private:
  double duration_us(const Op& op) const;

  Topology topology_;
  std::map<int, double> devices_free_us_;                // by device
  std::map<std::pair<int, int>, double> links_free_us_;  // by source and destination
  bool recording_ = false;
  std::vector<Event> events_;
};

}  // namespace ringrad::sim
