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
// Who looks at a span sees what is said of it, as members of a JSON object, which is put together only if there is a file:
//
//     const TraceSpan span("recv_reduce", "step", [&] { return concat("\"chunk\":", chunk); });
//
// What has spans: layers, the nodes of a backward pass, collectives and the steps of their plans on CPUs, steps of
// optimizers, batches. A process of several ranks names its threads: TraceThread thread(rank, "compute"). Without
// a file a span costs one load and one branch. Times are the host's; what runs on a GPU is shown when it is queued.

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

/// What the calling thread is called in the trace, until the end of the scope; with a number behind it while another
/// thread of the rank has the same name, so that each row of the picture is one thread.
class TraceThread {
 public:
  TraceThread(int rank, std::string name);
  ~TraceThread();
  TraceThread(const TraceThread&) = delete;
  TraceThread& operator=(const TraceThread&) = delete;

 private:
  std::pair<int, std::string> before_;
};

/// The rank of the calling thread, for the threads that it starts.
int trace_rank();

using TraceClock = std::chrono::steady_clock;

/// One span that has ended. `args` are members of a JSON object, or nothing.
void trace_span(const std::string& name, const char* category, TraceClock::time_point begin,
                TraceClock::time_point end, const std::string& args = {});

namespace detail {
extern std::atomic<bool> is_tracing;
}

inline bool is_tracing() { return detail::is_tracing.load(std::memory_order_relaxed); }

struct NoTraceArgs {
  std::string operator()() const { return {}; }
};

template <class Args = NoTraceArgs>
class TraceSpan {
 public:
  /// `args` is called when the span ends, if it is written.
  /// REQUIRES: both strings outlive the span
  TraceSpan(const char* name, const char* category, Args args = {})
      : name_(name), category_(category), args_(std::move(args)) {
    if (is_tracing()) begin_ = TraceClock::now();
  }
  ~TraceSpan() {
    if (begin_ != TraceClock::time_point{})
      trace_span(name_, category_, begin_, TraceClock::now(), args_());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* name_;
  const char* category_;
  [[no_unique_address]] Args args_;
  TraceClock::time_point begin_{};
};

}  // namespace ringrad
