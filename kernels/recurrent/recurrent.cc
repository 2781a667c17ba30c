#include "ringrad/kernels/recurrent/recurrent.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/recurrent/cell.h"

namespace ringrad::kernels {
namespace {

void check_part(const char* what, const Tensor& x, const Shape& shape, const Tensor& input,
                Where where) {
  check_same_dtype("recurrent", input, x, where);
  check_same_device("recurrent", input, x, where);
  RINGRAD_CHECK(x.shape() == shape, ShapeError, where, "recurrent: ", what, " must be ", shape,
                " for an input of ", input.shape(), "; got ", x.shape());
}

void check(Cell cell, const Tensor& input, const Tensor& weight, const Tensor& bias,
           const Tensor& hidden, const Tensor& cell_state, Where where) {
  check_floating("recurrent", input, where);
  const int gates = num_gates(cell);
  RINGRAD_CHECK(input.dims() == 3 && input.shape()[2] % gates == 0, ShapeError, where,
                "recurrent: input must be (T, B, ", gates, " H); got ", input.shape());
  const std::int64_t batch = input.shape()[1], width = input.shape()[2], size = width / gates;
  check_part("weight", weight, {width, size}, input, where);
  if (bias.defined()) check_part("bias", bias, {width}, input, where);
  check_part("the initial hidden state", hidden, {batch, size}, input, where);
  RINGRAD_CHECK(cell_state.defined() == (cell == Cell::lstm), ValueError, where,
                "recurrent: an LSTM, and no other cell, has a cell state; got ",
                cell_state.defined() ? "one" : "none");
  if (cell_state.defined())
    check_part("the initial cell state", cell_state, {batch, size}, input, where);
}

// Where step t of `num_steps` finds its states among num_steps + 1.
struct Places {
  std::int64_t before, after;
  Places(std::int64_t t, bool reverse) : before(reverse ? t + 1 : t), after(reverse ? t : t + 1) {}
};

Tensor at(const Tensor& x, std::int64_t i) { return x.defined() ? view::select(x, 0, i) : x; }

}  // namespace

RecurrentSteps recurrent_forward(Cell cell, const Tensor& input, const Tensor& weight,
                                 const Tensor& bias, const Tensor& initial_hidden,
                                 const Tensor& initial_cell, bool reverse, Where where) {
  check(cell, input, weight, bias, initial_hidden, initial_cell, where);
  const std::int64_t steps = input.shape()[0], batch = input.shape()[1], size = weight.shape()[1];
  const Options options{.dtype = input.dtype(), .device = input.device()};
  const std::int64_t first = reverse ? steps : 0;
  RecurrentSteps result{.hidden = empty({steps + 1, batch, size}, options, where)};
  copy_(at(result.hidden, first), initial_hidden, where);
  if (cell == Cell::lstm) {
    result.cells = empty({steps + 1, batch, size}, options, where);
    copy_(at(result.cells, first), initial_cell, where);
  }
  if (num_gates(cell) > 1) result.saved = empty({steps, batch, 4 * size}, options, where);
  const Tensor gates = contiguous(input, where);
  // Products read a matrix in the order of its rows fastest, and this one is read in each step.
  const Tensor transposed = contiguous(view::transpose(weight, 0, 1), where);
  const Tensor recurrent = empty({batch, input.shape()[2]}, options, where);
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    const Places place(t, reverse);
    const Tensor before = at(result.hidden, place.before);
    matmul_out(before, transposed, {.bias = bias}, recurrent, where);
    const ForwardStep step{.cell = cell,
                           .input = at(gates, t),
                           .recurrent = recurrent,
                           .hidden_before = before,
                           .cell_before = at(result.cells, place.before),
                           .saved = at(result.saved, t),
                           .cell_after = at(result.cells, place.after),
                           .hidden = at(result.hidden, place.after)};
    input.device().is_cuda() ? cuda::cell_forward(step, where) : cpu::cell_forward(step);
  }
  return result;
}

RecurrentGradients recurrent_backward(Cell cell, const RecurrentSteps& steps, const Tensor& weight,
                                      const Tensor& grad_output, const Tensor& grad_last_cell,
                                      bool reverse, Where where) {
  const std::int64_t num_steps = steps.hidden.shape()[0] - 1, batch = steps.hidden.shape()[1],
                     size = steps.hidden.shape()[2], width = num_gates(cell) * size;
  const Options options{.dtype = weight.dtype(), .device = weight.device()};
  const Tensor grads = contiguous(grad_output, where), matrix = contiguous(weight, where);
  const Tensor grad_state = zeros({batch, size}, options, where);
  if (grad_last_cell.defined()) copy_(grad_state, grad_last_cell, where);
  const Tensor grad_hidden = zeros({batch, size}, options, where);  // through the gates
  const Tensor grad_input = empty({num_steps, batch, width}, options, where);
  const Tensor grad_recurrent =
      cell == Cell::gru ? empty({num_steps, batch, width}, options, where) : grad_input;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    const std::int64_t t = reverse ? i : num_steps - 1 - i;
    const Places place(t, reverse);
    const BackwardStep step{.cell = cell,
                            .saved = at(steps.saved, t),
                            .hidden_before = at(steps.hidden, place.before),
                            .hidden = at(steps.hidden, place.after),
                            .cell_before = at(steps.cells, place.before),
                            .cell_after = at(steps.cells, place.after),
                            .grad_output = at(grads, t),
                            .grad_next = grad_hidden,
                            .grad_state = grad_state,
                            .grad_input = at(grad_input, t),
                            .grad_recurrent = at(grad_recurrent, t)};
    weight.device().is_cuda() ? cuda::cell_backward(step, where) : cpu::cell_backward(step);
    matmul_out(at(grad_recurrent, t), matrix, {}, grad_hidden, where);
  }
  return {
      .input = grad_input, .recurrent = grad_recurrent, .hidden = grad_hidden, .cell = grad_state};
}

}  // namespace ringrad::kernels
