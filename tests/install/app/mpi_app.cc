// MPI's ranks form the group.

#include <cstdio>

#include "ringrad/parallel/comm/network/mpi_group.h"
#include "ringrad/ringrad.h"

int main() {
  const auto comm = ringrad::join_mpi_group();
  const ringrad::Tensor sum = ringrad::full({1}, 1.0 + comm->rank());
  comm->all_reduce(sum);
  if (comm->rank() == 0) std::printf("sum %g\n", sum.item<double>());
}
