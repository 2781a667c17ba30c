#include "sim/machine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sim/fault_handler.h"
#include "sim/runtime_api.h"
#include "sim/sanitizers.h"

namespace ringrad::sim {
namespace {

constexpr double kCallUs =
    1;  // simulated time of a host thread for each call that queues something

// Null until it is first asked for. Never destroyed but by reset(): tensors in static storage may
// outlive everything else.
std::mutex creation;
Machine* machine = nullptr;

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
  if (const char* path = std::getenv("RINGRAD_SIM_TRACE")) std::ofstream(path) << chrome_trace();
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
  if (const char* topology = std::getenv("RINGRAD_SIM_TOPOLOGY")) options.topology = topology;
  options.bytes_per_device = mib << 20;
  options.hang_limit = std::chrono::milliseconds(hang_ms);
  return options;
}

Machine::Machine(const Options& options_)
    : options(options_),
      memory(options.num_devices, options.bytes_per_device),
      clock(Topology::named(options.topology, options.num_devices)),
      engine(options.num_devices, memory, clock,
             {.seed = options.seed, .hang_limit = options.hang_limit}),
      devices(static_cast<std::size_t>(options.num_devices)) {
  for (int device = 0; device < options.num_devices; ++device)
    devices[static_cast<std::size_t>(device)].default_stream =
        std::make_unique<Stream>(device, num_streams++, true);
  handle_faults_of(&memory);
}

Machine::~Machine() { handle_faults_of(nullptr); }

Machine& Machine::get() {
  const QuietLock lock(creation);
  if (!machine) {
    machine = new Machine(Options::from_environment());
    if (std::getenv("RINGRAD_SIM_TRACE")) {
      machine->clock.record();
      std::atexit(write_trace_at_exit);
    }
  }
  return *machine;
}

Stream& Machine::resolve(Stream* stream) {
  if (stream) return *stream;
  return *devices[static_cast<std::size_t>(this_host_thread().device)].default_stream;
}

void Machine::submit(const std::shared_ptr<Op>& op, Stream& stream,
                     const std::shared_ptr<Op>& also_after) {
  release(op->kernel.queued);
  const QuietLock lock(mutex);
  SimulatedDevice& device = devices[static_cast<std::size_t>(stream.device)];
  std::vector<std::shared_ptr<Op>> predecessors{stream.last, also_after};
  if (&stream == device.default_stream.get()) {
    for (const auto& other : device.streams)
      if (other->blocking) predecessors.push_back(other->last);
    std::move(device.ended.begin(), device.ended.end(), std::back_inserter(predecessors));
    device.ended.clear();
  } else if (stream.blocking) {
    predecessors.push_back(device.default_stream->last);
  }
  HostThread& host = this_host_thread();
  host.now_us += kCallUs;
  op->begin_us = host.now_us;
  op->device = op->kernel.device = stream.device;
  op->stream = stream.number;
  engine.submit(op, predecessors);
  stream.last = op;
}

void Machine::wait(const std::shared_ptr<Op>& op) {
  if (!op) return;
  engine.wait(op);
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
    last.insert(last.end(), own.ended.begin(), own.ended.end());
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
  return thread;
}

cudaError_t fail(cudaError_t error, const std::string& report) {
  HostThread& host = this_host_thread();
  host.last_error = error;
  host.report = report;
  return error;
}

cudaError_t check_device(int device) {
  if (Engine::runs_here())
    return fail(cudaErrorNotPermitted, "kernels and host functions must not call the CUDA runtime");
  const std::optional<Fault> fault = Machine::get().engine.fault(device);
  return fault ? fail(fault->error, fault->message) : cudaSuccess;
}

// --- The simulator's own interface -----------------------------------------------------------------

void reset(const Options& options) {
  const QuietLock lock(creation);
  delete std::exchange(machine, nullptr);
  this_host_thread() = {};
  machine = new Machine(options);
}

std::string last_report() { return this_host_thread().report; }

std::size_t num_live_allocations() { return Machine::get().memory.live_allocations().size(); }

std::string chrome_trace() {
  Machine& m = Machine::get();
  m.clock.record();
  nlohmann::json events = nlohmann::json::array();
  for (int device = 0; device < m.options.num_devices; ++device)
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", device},
                      {"args", {{"name", "simulated device " + std::to_string(device)}}}});
  for (const Clock::Event& event : m.clock.events())
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
