#include "ringrad/tests/fuzz_torch/operators.h"

namespace ringrad::fuzz_torch {

const Operators& operators() {
  static const Operators all = [] {
    Operators result;
    for (Operators some :
         {elementwise_operators(), movement_operators(), index_operators(), reduction_operators(),
          layer_operators(), loss_operators(), training_operators()})
      result.merge(some);
    return result;
  }();
  return all;
}

}  // namespace ringrad::fuzz_torch
