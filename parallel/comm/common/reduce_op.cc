#include "ringrad/parallel/comm/common/reduce_op.h"

#include <ostream>

namespace ringrad {

const char* name(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "mean", "product", "min", "max"};
  return kNames[static_cast<std::size_t>(op)];
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name(op); }

}  // namespace ringrad
