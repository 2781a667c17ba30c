#include "ringrad/autograd/recurrent/recurrent.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

// The states of a step, from those before it, by public operators.
void composed_step(Cell cell, const Tensor& input, const Tensor& recurrent, Tensor& hidden,
                   Tensor& cell_state) {
  const std::int64_t size = hidden.shape()[1];
  const auto gate = [&](const Tensor& share, std::int64_t k) {
    return slice(share, 1, k * size, (k + 1) * size);
  };
  const auto sum = [&](std::int64_t k) { return gate(input, k) + gate(recurrent, k); };
  switch (cell) {
    case Cell::tanh:
      hidden = tanh(input + recurrent);
      return;
    case Cell::relu:
      hidden = relu(input + recurrent);
      return;
    case Cell::lstm:
      cell_state = sigmoid(sum(1)) * cell_state + sigmoid(sum(0)) * tanh(sum(2));
      hidden = sigmoid(sum(3)) * tanh(cell_state);
      return;
    case Cell::gru: {
      const Tensor fresh = tanh(gate(input, 2) + sigmoid(sum(0)) * gate(recurrent, 2));
      hidden = fresh + sigmoid(sum(1)) * (hidden - fresh);
      return;
    }
  }
}

// {output, last cell state} by public operators.
std::vector<Tensor> composed(Cell cell, const std::vector<Tensor>& inputs, bool reverse) {
  const std::int64_t steps = inputs[0].shape()[0];
  Tensor hidden = inputs[3], cell_state = inputs[4];
  std::vector<Tensor> outputs;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    composed_step(cell, select(inputs[0], 0, t), linear(hidden, inputs[1], inputs[2]), hidden,
                  cell_state);
    outputs.push_back(hidden);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  std::vector<Tensor> result{stack(outputs)};
  if (cell == Cell::lstm) result.push_back(cell_state);
  return result;
}

// Runs the sequence again by public operators, whose gradients can be differentiated.
void backward_recorded(BackwardContext& context, Cell cell, const std::vector<SavedTensor>& saved,
                       bool reverse) {
  // Aliases of the inputs in the history, at which the pass below ends: one input may depend on
  // another, and what is before them belongs to the pass that runs now.
  const auto hands_on = std::make_shared<bool>(false);
  std::vector<Tensor> inputs, wanted;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const Tensor& x = saved[i].get();
    inputs.push_back(x.defined() ? view::alias(x) : x);
    if (!context.needs(static_cast<int>(i))) continue;
    record("alias", context.where(), inputs.back(), {&x}, [hands_on](BackwardContext& later) {
      if (*hands_on) later.set(0, later.grad_output());
    });
    wanted.push_back(inputs.back());
  }
  const std::vector<Tensor> all = composed(cell, inputs, reverse);
  std::vector<Tensor> outputs, grads;
  for (std::size_t k = 0; k < all.size(); ++k)
    if (const Tensor& grad = context.grad_output(static_cast<int>(k)); grad.defined()) {
      outputs.push_back(all[k]);
      grads.push_back(grad);
    }
  const auto found = grad(outputs, wanted, grads, {.create_graph = true}, context.where());
  *hands_on = true;
  for (std::size_t i = 0, next = 0; i < saved.size(); ++i)
    if (context.needs(static_cast<int>(i))) context.set(static_cast<int>(i), found[next++]);
}

Tensor matrix_of(const Tensor& x) {
  return view::reshape(x, {x.shape()[0] * x.shape()[1], x.shape()[2]});
}

void backward_fused(BackwardContext& context, Cell cell, const kernels::RecurrentSteps& steps,
                    const Tensor& weight, bool reverse) {
  const std::int64_t num_steps = steps.hidden.shape()[0] - 1;
  Tensor grad_output = context.grad_output(0);
  if (!grad_output.defined())
    grad_output = zeros({num_steps, steps.hidden.shape()[1], steps.hidden.shape()[2]},
                        {.dtype = weight.dtype(), .device = weight.device()});
  const Tensor grad_cell = cell == Cell::lstm ? context.grad_output(1) : Tensor();
  const kernels::RecurrentGradients grads =
      kernels::recurrent_backward(cell, steps, weight, grad_output, grad_cell, reverse);
  const Tensor recurrent = matrix_of(grads.recurrent);
  context.set(0, grads.input);
  if (context.needs(1)) {
    const Tensor before =
        matrix_of(view::slice(steps.hidden, 0, reverse ? 1 : 0, num_steps + (reverse ? 1 : 0)));
    const Tensor destination = context.destination(1);
    if (destination.defined())
      kernels::matmul_out(view::transpose(recurrent, 0, 1), before, {}, destination);
    context.set(1, destination.defined()
                       ? destination
                       : kernels::matmul(view::transpose(recurrent, 0, 1), before));
  }
  if (context.needs(2)) context.set(2, kernels::sum_to(recurrent, {recurrent.shape()[1]}));
  // A GRU's initial state also reaches the first step directly.
  context.set(3, cell == Cell::gru ? grads.hidden + grads.cell : grads.hidden);
  if (cell == Cell::lstm) context.set(4, grads.cell);
}

}  // namespace

RecurrentOutput recurrent(Cell cell, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& hidden, const Tensor& cell_state, bool reverse,
                          Where where) {
  if (autocasting())
    return with_narrowed(
        where, [&](auto&... narrow) { return recurrent(cell, narrow..., reverse, where); }, input,
        weight, bias, hidden, cell_state);
  const kernels::RecurrentSteps steps =
      kernels::recurrent_forward(cell, input, weight, bias, hidden, cell_state, reverse, where);
  const std::int64_t num_steps = input.shape()[0], shift = reverse ? 0 : 1;
  std::vector<Tensor> outputs{view::slice(steps.hidden, 0, shift, num_steps + shift, 1, where)};
  if (num_steps == 0) return {outputs[0], hidden, cell_state};
  const std::int64_t last = reverse ? 0 : num_steps;
  if (cell == Cell::lstm) outputs.push_back(view::select(steps.cells, 0, last, where));
  if (needs_grad(input, weight, bias, hidden, cell_state)) {
    std::vector<SavedTensor> saved;
    const std::vector<Tensor> inputs{input, weight, bias, hidden, cell_state};
    for (const Tensor& x : inputs) saved.push_back(save(x));
    record("recurrent", where, outputs, inputs,
           [=, states = save(steps.hidden), cells = save(steps.cells),
            gates = steps.saved](BackwardContext& context) {
             if (grad_enabled()) return backward_recorded(context, cell, saved, reverse);
             backward_fused(context, cell,
                            {.hidden = states.get(), .cells = cells.get(), .saved = gates},
                            saved[1].get(), reverse);
           });
  }
  return {outputs[0], select(outputs[0], 0, reverse ? 0 : num_steps - 1, where),
          cell == Cell::lstm ? outputs[1] : Tensor()};
}

}  // namespace ringrad
