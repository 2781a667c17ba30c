// FlightRecorder: a record of the latest calls of one rank's communicator, always on, to be read
// after a failure.
//
//     #    operation                          state      begin        took
//     17   all_reduce(sum, float32, 8 ...)    finished   12.003 ms    31 us
//     18   all_gather(float32, 64 ...)        failed     12.040 ms    1.0 s
//
// Recording an operation costs two readings of the processor's clock and a few stores. After a
// failure each rank writes its record as JSON into the folder that RINGRAD_FLIGHT_DIR names, if
// any. tools/flight_report lays the records of all ranks of the latest run side by side, and names
// the rank that stayed away or made another call, and where.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/collective_call.h"

namespace ringrad {

struct FlightRecord {
  /// How far the operation is.
  enum class State : std::uint8_t { started, finished, failed };

  std::uint64_t sequence = 0;  ///< 1 for the first operation of the communicator
  CollectiveCall call{};
  State state = State::started;
  Where where{};
  std::uint64_t begin_ticks = 0, end_ticks = 0;  ///< of the processor's clock; end 0 while it runs
};

/// "started", "finished" or "failed".
const char* name(FlightRecord::State state);

/// Every group calls this before it is made. A folder that has passed is not checked again: losing
/// it later must not end a job that may never need it. Thread-safe.
///
/// Throws: ValueError unless RINGRAD_FLIGHT_DIR is empty, not set, or names a folder that this
///         process can write to
void check_record_folder(Where where);

/// For one thread at a time.
class FlightRecorder {
 public:
  static constexpr std::size_t kRecords = 1024;

  /// `group` distinguishes this communicator's group from others of the job. All ranks of the group
  /// must pass the same name.
  explicit FlightRecorder(std::string group);

  /// Records an operation as started; it takes the place of the oldest one of kRecords.
  void begin(const CollectiveCall& call, Where where);
  /// Sets the state of the operation that has begun last.
  void end(FlightRecord::State state);

  /// The last kRecords operations, oldest first.
  std::vector<FlightRecord> records() const;

  /// {"rank":0,"world_size":2,"job":"...","failure":"...","operations":[{"sequence":1,
  /// "call":"all_reduce(sum, float32, 8 elements)","state":"finished","where":"train.cc:12",
  /// "begin_us":..,"took_us":..}, ...]}, times since the recorder was made. The job is job_name().
  void write_json(std::ostream& out, int rank, int world_size, const std::string& failure) const;

  /// Writes this JSON into `<folder>/flight_<group>_rank<r>.json`, where RINGRAD_FLIGHT_DIR names
  /// the folder: the whole file or none, readable by this user alone. A slash in the group's name
  /// is written %2F, and a percent sign %25. Does nothing if no folder is named. A failure to write
  /// is ignored, because another failure is being reported already.
  void dump(int rank, int world_size, const std::string& failure) const noexcept;

 private:
  double microseconds_since_start(std::uint64_t ticks) const;

  std::vector<FlightRecord> records_;  // (kRecords), a ring
  std::uint64_t num_begun_ = 0;
  std::uint64_t start_ticks_;
  std::int64_t start_ns_;
  std::string group_;
};

}  // namespace ringrad
