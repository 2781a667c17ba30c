#include "ringrad/sim/op.h"

#include <utility>

#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {

std::shared_ptr<Op> make_op(Op::Kind kind, std::string name) {
  const auto op = std::allocate_shared<Op>(UnseenAllocator<Op>());
  op->kind = kind;
  op->kernel.name = std::move(name);
  return op;
}

std::shared_ptr<Op> make_marker() {
  std::shared_ptr<Op> op = make_op(Op::Kind::marker);
  op->kernel.body = [] {};
  return op;
}

std::unordered_set<const Op*> ancestors(const Op* op) {
  std::vector<const Op*> found;  // grows while it is walked
  std::unordered_set<const Op*> known;
  const auto visit = [&](const Op* next) {
    if (next && known.insert(next).second) found.push_back(next);
  };
  visit(op);
  for (std::size_t i = 0; i < found.size(); ++i) {
    visit(found[i]->ahead);
    for (const std::shared_ptr<Op>& predecessor : found[i]->predecessors) visit(predecessor.get());
  }
  return known;
}

}  // namespace ringrad::sim
