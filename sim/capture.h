// Capture: what is queued on a stream is written down instead of run, to be run later as often as one
// likes: a CUDA graph.
//
//     begin on A    A: kernel 1 --- record event ------------ wait for B's event --- end on A
//                                        \                   /
//                   B:                   wait --- kernel 2 --- record event
//
// A stream joins a capture by waiting for an event that was recorded in it. At the end, everything that
// was captured must come before the last op of the stream where it began, or something would be lost.
//
// A captured op is an op that is never submitted: its predecessors are other captured ops. A replay
// submits copies.

#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "sim/op.h"
#include "sim/runtime_types.h"

namespace ringrad::sim {

class Stream;

/// Captured ops, each after its predecessors.
class Graph {
 public:
  explicit Graph(std::vector<std::shared_ptr<Op>> ops) : ops_(std::move(ops)) {}

  std::size_t size() const { return ops_.size(); }
  /// Copies of the ops, with copies as predecessors.
  std::vector<std::shared_ptr<Op>> copy_ops() const;

 private:
  std::vector<std::shared_ptr<Op>> ops_;
};

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(const Stream& origin, cudaStreamCaptureMode mode)
      : origin_(&origin), mode_(mode), thread_(std::this_thread::get_id()) {}

  bool began_on(const Stream& stream) const { return origin_ == &stream; }
  /// True if the calling thread must make no call that allocates, or waits for more than a stream.
  bool forbids_unsafe_calls() const;

  void add(const std::shared_ptr<Op>& op, std::vector<std::shared_ptr<Op>> predecessors);
  const std::vector<std::shared_ptr<Op>>& ops() const { return ops_; }
  /// True if every captured op comes before `last`, or is it.
  bool is_joined_by(const std::shared_ptr<Op>& last) const;

  bool invalid = false;  // a call that is not allowed was made meanwhile
  bool ended = false;

 private:
  const Stream* origin_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_;
  std::vector<std::shared_ptr<Op>> ops_;
};

}  // namespace ringrad::sim
