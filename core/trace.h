// Trace: records what ran when, in which process and on which thread, in a file for Perfetto
// (ui.perfetto.dev) and chrome://tracing.
//
//     RINGRAD_TRACE=run.json ./program             or  trace_to("run.json");
//
//     {
//       const TraceSpan span("forward", "compute");      from here to the end of the scope
//       ...
//     }
//
// A span can carry details, as members of a JSON object; they are computed only if there is a file:
//
//     const TraceSpan span("recv_reduce", "step", [&] { return concat("\"chunk\":", chunk); });
//
// These have spans: layers, the nodes of a backward pass, collectives and the steps of their plans
// on CPUs, optimizer steps, batches. A thread can have a name, and a group of its own where one
// process does the work of several:
//
//     const TraceThread thread(3, "compute");
//
// Without a file, a span costs one load and one branch. Times are the host's; work on a GPU appears
// at the time it is queued.

#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// Writes spans to `path` from now on, each as it ends; one process writes one file, in place of an
/// existing one. The file that RINGRAD_TRACE names is made at the first span, or at the program's
/// end.
///
/// Throws:  DataError if the file cannot be written, and as end_trace() for an earlier file
void trace_to(const std::string& path, Where where = Where::current());

/// Completes the file and stops writing.
///
/// Throws:  DataError that names the file if events were lost, for example because the disk was
///          full; at the program's end the message goes to stderr instead
void end_trace(Where where = Where::current());

/// What a process is called in traces. The layer above sets this before the first span. Threads are
/// drawn in groups named "<kind> <number>", as in "rank 3"; a thread without a TraceThread belongs
/// to the process's group.
struct TraceProcess {
  const char* kind = "process";  ///< what the numbers count; a literal
  int number = 0;
  bool is_one_of_many = false;  ///< the file that RINGRAD_TRACE names gets the suffix ".<number>"
};
void set_trace_process(const TraceProcess& process);

/// Names the calling thread in the trace, and the group to which it belongs, until the end of the
/// scope. A number is appended while another thread of the group has the same name, so that each
/// row of the picture is one thread.
class TraceThread {
 public:
  TraceThread(int group, std::string name);
  ~TraceThread();
  TraceThread(const TraceThread&) = delete;
  TraceThread& operator=(const TraceThread&) = delete;

 private:
  std::pair<int, std::string> before_;
};

/// The group of the calling thread, to pass on to threads that it starts.
int trace_group();

using TraceClock = std::chrono::steady_clock;

/// Writes one span that has ended. `args` are members of a JSON object, or empty.
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
  /// `args` is called when the span ends, if the span is written.
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
