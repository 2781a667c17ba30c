// The norm of gradients that several ranks have.

#pragma once

#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/gather_values.h"

namespace ringrad {

/// The norm of all ranks' tensors together, from the norms of each rank's: the same bits on all
/// ranks, which must all call it.
inline kernels::Norm joint_norm(const kernels::Norm& own, Communicator& comm, Where where) {
  kernels::Norm all;
  for (const kernels::Norm& norm : gather_values(comm, own, where)) all.add(norm);
  return all;
}

}  // namespace ringrad
