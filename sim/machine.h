// Machine: the simulated devices with their memory, streams and clock; there is one per process.
//
// The functions of the runtime (runtime_*.cc) are thin: they check what CUDA checks, create ops,
// and pass them to the scheduler.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringrad/sim/capture.h"
#include "ringrad/sim/clock.h"
#include "ringrad/sim/memory.h"
#include "ringrad/sim/scheduler.h"
#include "ringrad/sim/shared_event.h"
#include "ringrad/sim/simulator.h"

struct CUstream_st {
  CUstream_st(int device_, int number_, bool blocking_, std::size_t queue_)
      : device(device_), number(number_), blocking(blocking_), queue(queue_) {}

  const int device;
  const int number;
  const bool blocking;      // it and the default stream wait for each other
  const std::size_t queue;  // its hardware queue on the device, shared with other streams
  std::shared_ptr<ringrad::sim::Op> last;  // all earlier ops are done when this one is
  std::shared_ptr<ringrad::sim::Capture> capture;
  std::shared_ptr<ringrad::sim::Op> last_captured;
};

struct CUevent_st {
  CUevent_st(int device_, bool timing_,
             std::shared_ptr<ringrad::sim::SharedEvent> shared_ = nullptr)
      : device(device_), timing(timing_), shared(std::move(shared_)) {}

  const int device;
  const bool timing;
  std::shared_ptr<ringrad::sim::Op> op;  // null until it is recorded in this process
  const std::shared_ptr<ringrad::sim::SharedEvent>
      shared;  // null unless other processes can open it
};

namespace ringrad::sim {

struct SimulatedDevice {
  std::unique_ptr<Stream> make_stream(int device, int number, bool blocking) {
    return std::make_unique<Stream>(device, number, blocking, num_streams++ % queues.size());
  }

  std::unique_ptr<Stream> default_stream;
  std::vector<std::unique_ptr<Stream>> streams;
  struct EndedStream {
    std::shared_ptr<Op> last;
    bool blocking;
  };
  std::vector<EndedStream> ended;  // destroyed, perhaps with work still queued
  // The op queued last in each hardware queue. Work of a queue begins in the order in which it was
  // queued.
  std::vector<std::shared_ptr<Op>> queues;
  std::size_t num_streams = 0;   // ever made
  std::uint32_t peers = 0;       // bit d: it may touch device d's memory
  std::uint32_t pool_users = 0;  // bit d: device d may touch memory of its pool
};

class Machine {
 public:
  explicit Machine(const Options& options);
  ~Machine();

  /// The machine of this process, made at first use.
  static Machine& get();

  /// Queues the op on a stream, or captures it, after the ops that CUDA's rules name and after
  /// `also_after`, the op of an event. Returns an error, and does nothing, if a capture forbids the
  /// call.
  cudaError_t submit(const std::shared_ptr<Op>& op, Stream& stream,
                     const std::shared_ptr<Op>& also_after = nullptr);
  /// Queues a graph's ops, each after its predecessors, and all after the graph's last launch.
  cudaError_t submit_graph(GraphExec* executable, Stream& stream);

  /// Returns an error if a capture that has not ended forbids the call; that capture becomes
  /// invalid. Pass the stream if the call waits for one stream, and none if it allocates or waits
  /// for devices.
  cudaError_t check_captures(const char* call, const Stream* stream = nullptr);

  /// Replaces null by the current device's default stream. An error if the stream was destroyed or
  /// never made, which makes it null, or if its device has failed.
  cudaError_t resolve(const char* call, Stream*& stream);
  /// The event's present state. An error if it was destroyed or never made.
  cudaError_t resolve(const char* call, const Event* event, std::optional<Event>& now);

  /// Waits, and moves the calling thread's simulated time to the op's end.
  void wait(const std::shared_ptr<Op>& op);
  /// Waits for all work that is queued on a device now.
  void wait_for_device(int device);

  const Options options;
  Clock clock;
  Memory memory;
  Scheduler scheduler;

  std::mutex mutex;  // guards all members below
  std::vector<SimulatedDevice> devices;
  std::unordered_map<const Event*, std::unique_ptr<Event>> events;
  std::unordered_map<const Graph*, std::unique_ptr<Graph>> graphs;
  std::unordered_map<const GraphExec*, std::unique_ptr<GraphExec>> graph_execs;
  std::map<const void*, std::size_t> pinned;                 // bytes by first address
  std::map<const void*, std::size_t> dynamic_shared_limits;  // by kernel
  std::vector<std::shared_ptr<Capture>> captures;            // that have not ended
  int num_streams = 0;

  /// True if p lies in memory of cudaMallocHost. REQUIRES: mutex is held
  bool is_pinned(const void* p) const;
  /// Makes the streams of the capture ordinary ones again. REQUIRES: mutex is held
  void end_capture(const std::shared_ptr<Capture>& capture);

 private:
  bool is_default(const Stream& stream) const;
  cudaError_t join_capture(Stream& stream, const Op& event_op);
  cudaError_t check_default_stream(const Stream& stream);
  std::vector<std::shared_ptr<Op>> predecessors_on(Stream& stream);
};

/// The runtime's state for each host thread.
struct HostThread {
  std::uint64_t machine =
      0;  // the number of the machine that this state belongs to: reset() makes new ones
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  double now_us = 0;  // simulated
};
HostThread& this_host_thread();

/// Notes the error and its report for the user; returns the error.
cudaError_t fail(cudaError_t error, const std::string& report);

/// The error of a call whose result pointer is null.
cudaError_t fail_no_place(const char* call);

/// The fault of a device, which every call that uses the device returns; cudaSuccess if there is
/// none.
cudaError_t check_device(int device);

}  // namespace ringrad::sim
