// Op: one thing that a stream does: run a kernel, copy, call the host, or only mark a point.
//
// Stream order, events and the rules of the default stream are all expressed alike: an op runs
// after the ops that it depends on. The devices' work is one graph. A copy is a kernel of one
// thread, and so is a call of the host.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "ringrad/sim/kernel.h"

namespace ringrad::sim {

class Capture;

struct Op {
  enum class Kind { kernel, copy, host_function, marker };

  Kind kind = Kind::marker;
  int device = 0;
  int stream = 0;                 // its number, for traces
  Kernel kernel;                  // empty for a marker
  std::uint64_t reaches = 0;      // memory that it may touch (memory.h)
  std::vector<const void*> uses;  // device memory that its arguments point to

  // The op's place in the graph. An op that is done has neither predecessors nor followers.
  std::vector<std::shared_ptr<Op>> predecessors, followers;
  std::size_t num_pending = 0;  // predecessors that are not done
  bool done = false;
  const Op* ahead = nullptr;   // the op before it in its hardware queue; must begin first
  std::shared_ptr<Op> behind;  // the op that this one holds back
  bool begun = false;
  bool stopped = false;  // a fault ended it early

  // Simulated time in microseconds, and what determines it (clock.h).
  double begin_us = 0, end_us = 0;
  double flops = 0, bytes = 0;
  int source = 0, destination = 0;  // of a copy; kHost for the host

  // An op that was captured (capture.h) never runs.
  bool captured = false;
  std::weak_ptr<Capture> capture;

  static constexpr int kHost = -1;
};

/// A new op. Simulated threads read their arguments from it, so ThreadSanitizer must not see its
/// destruction.
std::shared_ptr<Op> make_op(Op::Kind kind, std::string name = {});
std::shared_ptr<Op> make_marker();

/// The op itself, and all unfinished ops that must run before it or that keep it from beginning.
/// Empty for null.
std::unordered_set<const Op*> ancestors(const Op* op);

}  // namespace ringrad::sim
