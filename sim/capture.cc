#include "ringrad/sim/capture.h"

#include <unordered_map>
#include <utility>

namespace ringrad::sim {

CapturedOps::~CapturedOps() {
  for (const std::shared_ptr<Op>& op : ops) op->predecessors.clear();
}

std::vector<std::shared_ptr<Op>> copy_ops(const CapturedOps& captured_ops) {
  std::unordered_map<const Op*, std::shared_ptr<Op>> copies;
  std::vector<std::shared_ptr<Op>> result;
  for (const std::shared_ptr<Op>& captured : captured_ops.ops) {
    std::shared_ptr<Op> copy = make_op(captured->kind, captured->kernel.name);
    copy->kernel = captured->kernel;
    copy->device = captured->device;
    copy->stream = captured->stream;
    copy->reaches = captured->reaches;
    copy->uses = captured->uses;
    copy->flops = captured->flops;
    copy->bytes = captured->bytes;
    copy->source = captured->source;
    copy->destination = captured->destination;
    for (const std::shared_ptr<Op>& predecessor : captured->predecessors)
      copy->predecessors.push_back(copies.at(predecessor.get()));
    copies.emplace(captured.get(), copy);
    result.push_back(std::move(copy));
  }
  return result;
}

bool Capture::forbids_unsafe_calls() const {
  if (mode_ == cudaStreamCaptureModeRelaxed) return false;
  return mode_ == cudaStreamCaptureModeGlobal || thread_ == std::this_thread::get_id();
}

void Capture::add(const std::shared_ptr<Op>& op, std::vector<std::shared_ptr<Op>> predecessors) {
  std::erase(predecessors, nullptr);
  op->predecessors = std::move(predecessors);
  op->captured = true;
  op->capture = weak_from_this();
  captured_->ops.push_back(op);
}

bool Capture::is_joined_by(const std::shared_ptr<Op>& last) const {
  return ancestors(last.get()).size() == captured_->ops.size();
}

}  // namespace ringrad::sim
