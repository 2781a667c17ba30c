#include "ringrad/parallel/comm/common/reduce_op.h"

#include <ostream>

namespace ringrad {

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      break;
  }
  return "max";
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name(op); }

}  // namespace ringrad
