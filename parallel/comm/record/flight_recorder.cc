#include "ringrad/parallel/comm/record/flight_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <utility>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/store/rank_environment.h"

namespace ringrad {
namespace {

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A third of the price of a clock.
std::uint64_t now_ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(now_ns());
#endif
}

// Where the environment wants records; null if nowhere.
const char* record_folder() {
  const char* folder = std::getenv("RINGRAD_FLIGHT_DIR");
  return folder && *folder ? folder : nullptr;
}

// Groups of parts of a job have names with slashes, which no file can have.
std::string as_file_name(std::string group) {
  for (std::size_t at = 0; (at = group.find_first_of("/%", at)) != group.npos; at += 3)
    group.replace(at, 1, group[at] == '/' ? "%2F" : "%25");
  return group;
}

}  // namespace

const char* name(FlightRecord::State state) {
  constexpr const char* kNames[] = {"started", "finished", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

void check_record_folder(Where where) {
  static std::mutex mutex;
  static std::string good;
  const char* folder = record_folder();
  const std::lock_guard lock(mutex);
  if (!folder || folder == good) return;
  const Descriptor file(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  const bool is_writable = file.is_open() && access(folder, W_OK | X_OK) == 0;
  RINGRAD_CHECK(is_writable, ValueError, where,
                "RINGRAD_FLIGHT_DIR: it must name a folder that can be written to; got ",
                std::strerror(errno), " from \"", folder, '"');
  good = folder;
}

FlightRecorder::FlightRecorder(std::string group)
    : records_(kRecords),
      start_ticks_(now_ticks()),
      start_ns_(now_ns()),
      group_(std::move(group)) {}

void FlightRecorder::begin(const CollectiveCall& call, Where where) {
  FlightRecord& record = records_[num_begun_ % kRecords];
  record = {.sequence = ++num_begun_, .call = call, .where = where, .begin_ticks = now_ticks()};
}

void FlightRecorder::end(FlightRecord::State state) {
  FlightRecord& record = records_[(num_begun_ - 1) % kRecords];
  record.state = state;
  record.end_ticks = now_ticks();
}

std::vector<FlightRecord> FlightRecorder::records() const {
  const std::uint64_t first = num_begun_ - std::min<std::uint64_t>(num_begun_, kRecords);
  std::vector<FlightRecord> result;
  for (std::uint64_t i = first; i < num_begun_; ++i) result.push_back(records_[i % kRecords]);
  return result;
}

// The clock's rate is what it has been since the recorder was made.
double FlightRecorder::microseconds_since_start(std::uint64_t ticks) const {
  const double passed = static_cast<double>(std::max<std::uint64_t>(now_ticks() - start_ticks_, 1));
  const double us_per_tick = 1e-3 * static_cast<double>(now_ns() - start_ns_) / passed;
  return static_cast<double>(ticks - start_ticks_) * us_per_tick;
}

void FlightRecorder::write_json(std::ostream& out, int rank, int world_size,
                                const std::string& failure) const {
  nlohmann::ordered_json flight = {
      {"rank", rank}, {"world_size", world_size}, {"job", job_name()}, {"failure", failure}};
  flight["operations"] = nlohmann::ordered_json::array();
  for (const FlightRecord& record : records()) {
    const double begin_us = microseconds_since_start(record.begin_ticks);
    nlohmann::ordered_json operation = {
        {"sequence", record.sequence},
        {"call", concat(record.call)},
        {"state", name(record.state)},
        {"where", concat(record.where.file_name(), ':', record.where.line())},
        {"begin_us", begin_us}};
    if (record.end_ticks > 0)
      operation["took_us"] = microseconds_since_start(record.end_ticks) - begin_us;
    flight["operations"].push_back(std::move(operation));
  }
  // A failure may quote bytes that are no UTF-8.
  out << flight.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void FlightRecorder::dump(int rank, int world_size, const std::string& failure) const noexcept {
  const char* folder = record_folder();
  if (!folder) return;
  try {
    std::ostringstream text;
    write_json(text, rank, world_size, failure);
    // Other ranks have just failed, so this process may be killed at any moment.
    AtomicFile file(
        concat(folder, "/flight_", as_file_name(group_), "_rank", rank, ".json"),
        {.operation = "flight", .has_many_writers = true, .is_private = true, .is_durable = false});
    file.write(text.view());
    file.commit();
  } catch (...) {  // no memory, say
  }
}

}  // namespace ringrad
