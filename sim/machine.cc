#include "ringrad/sim/machine.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringrad/sim/fault_handler.h"
#include "ringrad/sim/sanitizers.h"
#include "ringrad/sim/unwritten.h"

namespace ringrad::sim {
namespace {

constexpr double kCallUs =
    1;  // simulated time that each call which queues work costs its host thread

// Null until first used. Destroyed only by reset(): tensors in static storage may outlive
// everything else.
std::mutex creation;
Machine* machine = nullptr;
std::atomic<std::uint64_t> num_machines = 0;

// The calling thread's last report. An object with thread or static storage may use the runtime
// after this is destroyed; a report made then is lost.
class Report {
 public:
  ~Report() { gone_ = true; }

  static void set(const std::string& text) {
    if (!gone_) mine_.text_ = text;
  }
  static std::string get() { return gone_ ? std::string() : mine_.text_; }

 private:
  static thread_local bool gone_;
  static thread_local Report mine_;
  std::string text_;
};
thread_local bool Report::gone_ = false;
thread_local Report Report::mine_;

template <class Number>
void read(const char* variable, Number& value) {
  const char* text = std::getenv(variable);
  if (!text) return;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end())
    throw std::invalid_argument(std::string(variable) + ": must be a number; got '" + text + "'");
}

void write_trace_at_exit() {
  const char* path = std::getenv("RINGRAD_SIM_TRACE");
  if (!path) return;
  errno = 0;
  std::ofstream file(path);
  file << chrome_trace();
  file.close();
  if (!file)
    std::fprintf(stderr, "simulated CUDA: RINGRAD_SIM_TRACE must be writable; got '%s', \"%s\"\n",
                 path, std::generic_category().message(errno).c_str());
}

}  // namespace

Options Options::from_environment() {
  Options options;
  std::size_t mib = options.bytes_per_device >> 20;
  std::int64_t hang_ms = options.hang_limit.count();
  read("RINGRAD_SIM_DEVICES", options.num_devices);
  read("RINGRAD_SIM_MEMORY_MIB", mib);
  read("RINGRAD_SIM_SEED", options.seed);
  read("RINGRAD_SIM_HANG_MS", hang_ms);
  read("CUDA_DEVICE_MAX_CONNECTIONS", options.num_queues);
  if (options.num_queues < 1 || options.num_queues > 32)
    throw std::invalid_argument("CUDA_DEVICE_MAX_CONNECTIONS: must be 1 to 32; got " +
                                std::to_string(options.num_queues));
  if (const char* topology = std::getenv("RINGRAD_SIM_TOPOLOGY")) options.topology = topology;
  int trap = 0;
  read("RINGRAD_SIM_TRAP", trap);
  options.trap_unwritten = trap != 0;
  options.bytes_per_device = mib << 20;
  options.hang_limit = std::chrono::milliseconds(hang_ms);
  return options;
}

Machine::Machine(const Options& options_)
    : options(options_),
      clock(Topology::named(options.topology, options.num_devices)),
      memory(options.num_devices, options.bytes_per_device),
      scheduler(options.num_devices, memory, clock,
                {.seed = options.seed, .hang_limit = options.hang_limit}),
      devices(static_cast<std::size_t>(options.num_devices)) {
  for (int d = 0; d < options.num_devices; ++d) {
    SimulatedDevice& device = devices[static_cast<std::size_t>(d)];
    device.queues.resize(options.num_queues);
    device.default_stream = device.make_stream(d, num_streams++, true);
  }
  ++num_machines;
  if (std::getenv("RINGRAD_SIM_TRACE")) {
    clock.record();
    static const int registered = std::atexit(write_trace_at_exit);
    static_cast<void>(registered);
  }
  trap_unwritten(options.trap_unwritten);
  handle_faults_of(&memory);
}

Machine::~Machine() {
  handle_faults_of(nullptr);
  for (const auto& [p, bytes] : pinned) std::free(const_cast<void*>(p));
}

Machine& Machine::get() {
  const QuietLock lock(creation);
  if (!machine) machine = new Machine(Options::from_environment());
  return *machine;
}

cudaError_t Machine::resolve(const char* call, Stream*& stream) {
  const Stream* const asked = std::exchange(stream, nullptr);
  if (!asked) {
    const int device = this_host_thread().device;
    stream = devices[static_cast<std::size_t>(device)].default_stream.get();
  } else {
    const QuietLock lock(mutex);
    for (const SimulatedDevice& device : devices)
      for (const auto& own : device.streams)
        if (own.get() == asked) stream = own.get();
  }
  if (stream) return check_device(stream->device);
  return fail(cudaErrorInvalidResourceHandle,
              std::string(call) + ": the stream must be one that exists");
}

cudaError_t Machine::resolve(const char* call, const Event* event, std::optional<Event>& now) {
  if (Scheduler::runs_here()) return check_device(0);
  const QuietLock lock(mutex);
  if (!events.contains(event))
    return fail(cudaErrorInvalidResourceHandle,
                std::string(call) + ": the event must be one that exists");
  now.emplace(*event);
  return cudaSuccess;
}

// The predecessors of an op on this stream. REQUIRES: mutex is held
std::vector<std::shared_ptr<Op>> Machine::predecessors_on(Stream& stream) {
  SimulatedDevice& device = devices[static_cast<std::size_t>(stream.device)];
  std::vector<std::shared_ptr<Op>> predecessors{stream.last};
  if (&stream == device.default_stream.get()) {
    for (const auto& other : device.streams)
      if (other->blocking) predecessors.push_back(other->last);
    for (const SimulatedDevice::EndedStream& stream_before : device.ended)
      if (stream_before.blocking) predecessors.push_back(stream_before.last);
  } else if (stream.blocking) {
    predecessors.push_back(device.default_stream->last);
  }
  return predecessors;
}

cudaError_t Machine::submit(const std::shared_ptr<Op>& op, Stream& stream,
                            const std::shared_ptr<Op>& also_after) {
  release(op->kernel.queued);
  const QuietLock lock(mutex);
  op->device = op->kernel.device = stream.device;
  op->stream = stream.number;
  if (also_after && (also_after->captured || stream.capture))
    if (const cudaError_t error = join_capture(stream, *also_after)) return error;
  if (stream.capture) {
    if (stream.capture->invalid)
      return fail(cudaErrorStreamCaptureInvalidated,
                  "a call that cannot be captured was made since the capture began");
    stream.capture->add(op, {stream.last_captured, also_after});
    stream.last_captured = op;
    return cudaSuccess;
  }
  if (const cudaError_t error = check_default_stream(stream)) return error;
  std::vector<std::shared_ptr<Op>> predecessors = predecessors_on(stream);
  predecessors.push_back(also_after);
  HostThread& host = this_host_thread();
  host.now_us += kCallUs;
  op->begin_us = host.now_us;
  std::shared_ptr<Op>& queue =
      devices[static_cast<std::size_t>(stream.device)].queues[stream.queue];
  scheduler.submit(op, predecessors, queue);
  stream.last = queue = op;
  return cudaSuccess;
}

bool Machine::is_default(const Stream& stream) const {
  return &stream == devices[static_cast<std::size_t>(stream.device)].default_stream.get();
}

// The default stream's work must follow the blocking streams' work, which a capture cannot
// guarantee.
cudaError_t Machine::check_default_stream(const Stream& stream) {
  if (!is_default(stream)) return cudaSuccess;
  for (const auto& other : devices[static_cast<std::size_t>(stream.device)].streams)
    if (other->blocking && other->capture) {
      other->capture->invalid = true;
      return fail(cudaErrorStreamCaptureImplicit,
                  "the default stream would wait for a stream that is being captured");
    }
  return cudaSuccess;
}

void Machine::end_capture(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  std::erase(captures, capture);
  for (SimulatedDevice& device : devices)
    for (const auto& stream : device.streams)
      if (stream->capture == capture) stream->capture = nullptr, stream->last_captured = nullptr;
}

// A stream that waits for an event of a capture belongs to it from then on.
cudaError_t Machine::join_capture(Stream& stream, const Op& event_op) {
  const std::shared_ptr<Capture> capture = event_op.capture.lock();
  if (event_op.captured && (!capture || capture->ended))
    return fail(cudaErrorCapturedEvent,
                "the event was recorded in a capture that has ended; it must be recorded again");
  if (is_default(stream)) {
    capture->invalid = true;
    return fail(cudaErrorStreamCaptureImplicit, "the default stream cannot be captured");
  }
  if (!stream.capture) {
    stream.capture = capture;
    stream.last_captured = nullptr;
  }
  if (stream.capture == capture) return cudaSuccess;
  stream.capture->invalid = true;
  return fail(cudaErrorStreamCaptureIsolation,
              "a stream that is being captured can wait only for events of the same capture");
}

cudaError_t Machine::submit_graph(GraphExec* executable, Stream& stream) {
  const std::shared_ptr<Op> end = make_marker();
  release(end->kernel.queued);
  std::vector<std::shared_ptr<Op>> ops;
  {
    const QuietLock lock(mutex);
    if (!graph_execs.contains(executable))
      return fail(cudaErrorInvalidValue, "cudaGraphLaunch: the graph must be one that exists");
    if (stream.capture)
      return fail(cudaErrorNotSupported, "cudaGraphLaunch: graphs within graphs are not simulated");
    ops = executable->graph.copy_ops();
  }
  for (const auto& op : ops) release(op->kernel.queued);
  const QuietLock lock(mutex);
  if (const cudaError_t error = check_default_stream(stream)) return error;
  std::vector<std::shared_ptr<Op>> before = predecessors_on(stream);
  before.push_back(executable->last);
  HostThread& host = this_host_thread();
  host.now_us += kCallUs;
  for (const auto& op : ops) {
    const auto own = std::exchange(op->predecessors, {});
    op->begin_us = host.now_us;
    scheduler.submit(op, own.empty() ? before : own);
  }
  end->begin_us = host.now_us;
  end->device = end->kernel.device = stream.device;
  std::vector<std::shared_ptr<Op>> all = ops;
  all.insert(all.end(), before.begin(), before.end());
  scheduler.submit(end, all);
  stream.last = executable->last = end;
  return cudaSuccess;
}

cudaError_t Machine::check_captures(const char* call, const Stream* stream) {
  const QuietLock lock(mutex);
  bool forbidden = false;
  for (const auto& capture : captures) {
    if (stream ? stream->capture != capture : !capture->forbids_unsafe_calls()) continue;
    capture->invalid = forbidden = true;
  }
  if (!forbidden) return cudaSuccess;
  return fail(cudaErrorStreamCaptureUnsupported,
              std::string(call) + ": it cannot be called while a stream is being captured");
}

void Machine::wait(const std::shared_ptr<Op>& op) {
  if (!op || Scheduler::runs_here()) return;  // a host function must not wait; it gets an error
  scheduler.wait(op);
  HostThread& host = this_host_thread();
  host.now_us = std::max(host.now_us, op->end_us);
}

void Machine::wait_for_device(int device) {
  std::vector<std::shared_ptr<Op>> last;
  {
    const QuietLock lock(mutex);
    const SimulatedDevice& own = devices[static_cast<std::size_t>(device)];
    last.push_back(own.default_stream->last);
    for (const auto& stream : own.streams) last.push_back(stream->last);
    for (const SimulatedDevice::EndedStream& stream : own.ended) last.push_back(stream.last);
  }
  for (const auto& op : last) wait(op);
}

bool Machine::is_pinned(const void* p) const {
  const auto after = pinned.upper_bound(p);
  if (after == pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return p < static_cast<const std::byte*>(begin) + bytes;
}

HostThread& this_host_thread() {
  static thread_local HostThread thread;
  if (const std::uint64_t current = num_machines; thread.machine != current)
    thread = {.machine = current};
  return thread;
}

cudaError_t fail(cudaError_t error, const std::string& report) {
  HostThread& host = this_host_thread();
  host.last_error = error;
  Report::set(report);
  return error;
}

cudaError_t fail_no_place(const char* call) {
  return fail(cudaErrorInvalidValue, std::string(call) + ": the result must have a place");
}

cudaError_t check_device(int device) {
  if (Scheduler::runs_here())
    return fail(cudaErrorNotPermitted, "kernels and host functions must not call the CUDA runtime");
  const std::optional<Fault> fault = Machine::get().scheduler.fault(device);
  return fault ? fail(fault->error, fault->message) : cudaSuccess;
}

// --- The simulator's own interface ---------------------------------------------------------------

void reset(const Options& options) {
  const QuietLock lock(creation);
  delete std::exchange(machine, nullptr);
  machine = new Machine(options);
  Report::set({});
}

std::string last_report() { return Report::get(); }

std::size_t num_live_allocations() { return Machine::get().memory.live_allocations().size(); }

std::string chrome_trace() {
  Machine& m = Machine::get();
  nlohmann::json events = nlohmann::json::array();
  for (int device = 0; device < m.options.num_devices; ++device)
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", device},
                      {"args", {{"name", "simulated device " + std::to_string(device)}}}});
  for (const Clock::Event& event : m.scheduler.record())
    events.push_back({{"ph", "X"},
                      {"name", event.name},
                      {"cat", event.kind == Op::Kind::kernel ? "kernel"
                              : event.kind == Op::Kind::copy ? "copy"
                                                             : "host"},
                      {"pid", event.device},
                      {"tid", event.stream},
                      {"ts", event.begin_us},
                      {"dur", event.end_us - event.begin_us}});
  return nlohmann::json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}.dump(1);
}

}  // namespace ringrad::sim
