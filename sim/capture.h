// Capture: ops queued on a stream are recorded instead of run, and can be run later any number of
// times: a CUDA graph.
//
//     begin on A    A: kernel 1 --- record event ------------ wait for B's event --- end on A
//                                        \                   /
//                   B:                   wait --- kernel 2 --- record event
//
// A stream joins a capture by waiting for an event that was recorded in it. At the end, every
// captured op must come before the last op of the stream where the capture began, or some ops would
// be lost.
//
// A captured op is an op that is never submitted: its predecessors are other captured ops. A replay
// submits copies.

#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "ringrad/sim/device/runtime_types.h"
#include "ringrad/sim/op.h"

namespace ringrad::sim {

/// Ops that refer to each other, each after its predecessors.
struct CapturedOps {
  CapturedOps() = default;
  CapturedOps(const CapturedOps&) = delete;
  CapturedOps& operator=(const CapturedOps&) = delete;
  ~CapturedOps();  // takes the links apart first: a long chain must not be destroyed by recursion

  std::vector<std::shared_ptr<Op>> ops;
};

/// Copies of the ops, with copies as predecessors.
std::vector<std::shared_ptr<Op>> copy_ops(const CapturedOps& captured);

}  // namespace ringrad::sim

/// The result of a capture: cudaGraph_t.
class CUgraph_st {
 public:
  explicit CUgraph_st(std::shared_ptr<const ringrad::sim::CapturedOps> captured)
      : captured_(std::move(captured)) {}

  std::size_t size() const { return captured_->ops.size(); }
  std::vector<std::shared_ptr<ringrad::sim::Op>> copy_ops() const {
    return ringrad::sim::copy_ops(*captured_);
  }

 private:
  std::shared_ptr<const ringrad::sim::CapturedOps> captured_;
};

/// An executable graph: cudaGraphExec_t. Its launches run one after another.
struct CUgraphExec_st {
  CUgraph_st graph;
  std::shared_ptr<ringrad::sim::Op> last;  // of the last launch
};

namespace ringrad::sim {

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(const Stream& origin, cudaStreamCaptureMode mode)
      : origin_(&origin), mode_(mode), thread_(std::this_thread::get_id()) {}

  bool began_on(const Stream& stream) const { return origin_ == &stream; }
  /// True if the calling thread must not allocate or wait for more than one stream.
  bool forbids_unsafe_calls() const;

  void add(const std::shared_ptr<Op>& op, std::vector<std::shared_ptr<Op>> predecessors);
  /// True if every captured op comes before `last`, or is it.
  bool is_joined_by(const std::shared_ptr<Op>& last) const;
  Graph graph() const { return Graph(captured_); }

  bool invalid = false;  // a forbidden call was made during the capture
  bool ended = false;

 private:
  const Stream* origin_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_;
  std::shared_ptr<CapturedOps> captured_ = std::make_shared<CapturedOps>();
};

}  // namespace ringrad::sim
