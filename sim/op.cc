#include "sim/op.h"

#include <utility>

#include "sim/sanitizers.h"

namespace ringrad::sim {

std::shared_ptr<Op> make_op(Op::Kind kind, std::string name) {
  std::shared_ptr<Op> op(new Op, [](const Op* dropped) {
    const Unseen unseen;
    delete dropped;
  });
  op->kind = kind;
  op->kernel.name = std::move(name);
  return op;
}

std::shared_ptr<Op> make_marker() {
  std::shared_ptr<Op> op = make_op(Op::Kind::marker);
  op->kernel.body = [] {};
  return op;
}

}  // namespace ringrad::sim
