// What training does with tensors besides calling operators: hooks on gradients, segments that are
// computed again in backward, collectives of ranks that are threads, random fills.

#include <algorithm>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/core/random/random.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

// Multiplies the gradient of x by a number. A second hook is removed again.
void scale_gradient(const Tensor& x, double factor) {
  if (!x.requires_grad()) return;
  HookHandle removed = register_hook(x, [](const Tensor& grad) { return grad * 100; });
  register_hook(x, [factor](const Tensor& grad) { return grad * factor; });
  removed.remove();
}

Tensor hook_on_result(In in, Arguments with) {
  const Tensor y = clone(in[0]);
  scale_gradient(y, with["factor"]);
  return y;
}

// Reaches all uses of the input, earlier ones as well.
Tensor hook_on_input(In in, Arguments with) {
  scale_gradient(in[0], with["factor"]);
  return clone(in[0]);
}

// A segment of two inputs and a leaf that it captures.
Tensor checkpoint(In in, Arguments) {
  const auto segment = [leaf = in[2]](const std::vector<Tensor>& x) {
    return tanh(x[0]) * x[1] + leaf * x[0];
  };
  return activation_checkpoint(segment, {in[0], in[1]});
}

ReduceOp reduce_op_of(Arguments with) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min,
                               ReduceOp::max};
  return *std::find_if(std::begin(kOps), std::end(kOps),
                       [&](ReduceOp op) { return name(op) == with["reduce"].get<std::string>(); });
}

// Rank r has (r + 1) x, in memory of its own. Calls run(comm, that, arguments), and returns the
// result of one rank.
template <class Run>
Operator on_ranks(Run run) {
  return [run](In in, Arguments with) {
    const int world_size = with["ranks"];
    std::vector<Tensor> results(static_cast<std::size_t>(world_size));
    run_ranks(world_size, [&](Communicator& comm) {
      const NoGradGuard no_grad;
      const Tensor mine = contiguous(in[0].detach() * (comm.rank() + 1));
      results[static_cast<std::size_t>(comm.rank())] = run(comm, mine, with);
    });
    return results[with["rank"].get<std::size_t>()];
  };
}

Tensor copies(const Tensor& x, int count) {
  return concatenate(std::vector<Tensor>(static_cast<std::size_t>(count), x), 0);
}

Operators collectives() {
  return {
      {"all_reduce", on_ranks([](Communicator& comm, const Tensor& x, Arguments with) {
         comm.all_reduce(x, reduce_op_of(with));
         return x;
       })},
      {"broadcast", on_ranks([](Communicator& comm, const Tensor& x, Arguments with) {
         comm.broadcast(x, with["root"]);
         return x;
       })},
      {"all_gather", on_ranks([](Communicator& comm, const Tensor& x, Arguments) {
         const Tensor all = copies(x, comm.world_size());
         comm.all_gather(all, x);
         return all;
       })},
      {"reduce_scatter", on_ranks([](Communicator& comm, const Tensor& x, Arguments with) {
         const Tensor part = clone(x);
         comm.reduce_scatter(part, copies(x, comm.world_size()), reduce_op_of(with));
         return part;
       })},
      {"all_to_all", on_ranks([](Communicator& comm, const Tensor& x, Arguments) {
         const Tensor all = copies(x, comm.world_size());
         const Tensor received = zeros_like(all);
         comm.all_to_all(received, all);
         return received;
       })},
  };
}

// Random fills of the first input, which is the result.
template <class Fill>
Operator filled(Fill fill) {
  return [fill](In in, Arguments) {
    fill(in[0]);
    return in[0];
  };
}

}  // namespace

Operators training_operators() {
  Operators result = {
      {"hook_on_result", hook_on_result},
      {"hook_on_input", hook_on_input},
      {"checkpoint", checkpoint},
      {"uniform_", filled([](const Tensor& x) { uniform_(x, 0, 1); })},
      {"normal_", filled([](const Tensor& x) { normal_(x, 0, 1); })},
      {"exponential_", filled([](const Tensor& x) { exponential_(x); })},
      {"bernoulli_", filled([](const Tensor& x) { bernoulli_(x, 0.5); })},
  };
  result.merge(collectives());
  return result;
}

}  // namespace ringrad::fuzz_torch
