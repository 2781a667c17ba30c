#include <iostream>

#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

int main() {
  const Tensor w = tensor({{1., 2.}, {3., 4.}}).set_requires_grad();
  const Tensor x = tensor({1., -1.});
  const Tensor loss = sum(square(matmul(w, x)));
  loss.backward();
  std::cout << loss << '\n';
  std::cout << w.grad() << '\n';
  run_ranks(4, [](Communicator& comm) {
    const Tensor sum = full({2}, comm.rank());
    comm.all_reduce(sum);
    if (comm.rank() == 0) std::cout << sum << '\n';
  });
}
