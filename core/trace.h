// Trace: when what ran, on which rank and which thread or stream, as a file that Perfetto (ui.perfetto.dev) and
// chrome://tracing open.
//
//     RINGRAD_TRACE=run.json ./program             or  trace_to("run.json");
//
//     {
//       const TraceSpan span("forward", "compute");      from here to the end of the scope
//       ...
//     }
//
// A process of several ranks names its threads: TraceThread thread(rank, "compute"). Without a file a span costs one
// load and one branch. Times are the host's; what runs on a GPU is shown when it is queued.

#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "core/error.h"

namespace ringrad {

/// Writes spans from now on, as they end, to `path`; one process writes one file. A process that is rank r of a
/// launcher's job appends ".r" to the name that RINGRAD_TRACE gives.
///
/// Throws: DataError if the file cannot be written
void trace_to(const std::string& path, Where where = Where::current());

/// Completes the file and writes no more.
void end_trace();

/// What the calling thread is called in the trace, until the end of the scope.
class TraceThread {
 public:
  TraceThread(int rank, std::string name);
  ~TraceThread();
  TraceThread(const TraceThread&) = delete;
  TraceThread& operator=(const TraceThread&) = delete;

 private:
  std::pair<int, std::string> before_;
};

using TraceClock = std::chrono::steady_clock;

/// One span that has ended.
void trace_span(const std::string& name, const char* category, TraceClock::time_point begin,
                TraceClock::time_point end);

namespace detail {
extern std::atomic<bool> is_tracing;
}

inline bool is_tracing() { return detail::is_tracing.load(std::memory_order_relaxed); }

class TraceSpan {
 public:
  /// REQUIRES: both strings outlive the span
  TraceSpan(const char* name, const char* category) : name_(name), category_(category) {
    if (is_tracing()) begin_ = TraceClock::now();
  }
  ~TraceSpan() {
    if (begin_ != TraceClock::time_point{}) trace_span(name_, category_, begin_, TraceClock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* name_;
  const char* category_;
  TraceClock::time_point begin_{};
};

}  // namespace ringrad
