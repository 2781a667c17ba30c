// One step of all sequences of a batch, on the tensors' device (cell_ops.h). Private to kernels/.

#pragma once

#include "ringrad/kernels/recurrent/cell_ops.h"
#include "ringrad/kernels/recurrent/recurrent.h"

namespace ringrad::kernels {

/// All tensors are contiguous: (B, H) for one state, (B, G H) for gates. A tensor is undefined if
/// the cell has no such array.
struct ForwardStep {
  Cell cell;
  Tensor input, recurrent, hidden_before, cell_before;
  Tensor saved, cell_after, hidden;
};

struct BackwardStep {
  Cell cell;
  Tensor saved, hidden_before, hidden, cell_before, cell_after;
  Tensor grad_output, grad_next;
  Tensor grad_state;  ///< grad_cell of LstmBackward or grad_direct of GruBackward: updated
  Tensor grad_input, grad_recurrent;
};

namespace cpu {
void cell_forward(const ForwardStep& step);
void cell_backward(const BackwardStep& step);
}  // namespace cpu

namespace cuda {
void cell_forward(const ForwardStep& step, Where where);
void cell_backward(const BackwardStep& step, Where where);
}  // namespace cuda

/// Calls run(functor), with the functor of cell_ops.h for the step.
template <class T, class Run>
void with_cell(const ForwardStep& s, const Run& run) {
  const std::int64_t n = s.hidden.shape()[1];
  const auto at = [](const Tensor& x) { return x.defined() ? x.device_data<T>() : nullptr; };
  T *input = at(s.input), *recurrent = at(s.recurrent), *hidden = at(s.hidden);
  switch (s.cell) {
    case Cell::tanh:
      return run(PlainForward<T, false>{n, input, recurrent, hidden});
    case Cell::relu:
      return run(PlainForward<T, true>{n, input, recurrent, hidden});
    case Cell::lstm:
      return run(LstmForward<T>{n, input, recurrent, at(s.cell_before), at(s.saved),
                                at(s.cell_after), hidden});
    case Cell::gru:
      return run(GruForward<T>{n, input, recurrent, at(s.hidden_before), at(s.saved), hidden});
  }
}

template <class T, class Run>
void with_cell(const BackwardStep& s, const Run& run) {
  const std::int64_t n = s.hidden.shape()[1];
  const auto at = [](const Tensor& x) { return x.defined() ? x.device_data<T>() : nullptr; };
  T *grad_output = at(s.grad_output), *grad_next = at(s.grad_next);
  T *grad_input = at(s.grad_input), *grad_state = at(s.grad_state);
  switch (s.cell) {
    case Cell::tanh:
      return run(PlainBackward<T, false>{n, at(s.hidden), grad_output, grad_next, grad_input});
    case Cell::relu:
      return run(PlainBackward<T, true>{n, at(s.hidden), grad_output, grad_next, grad_input});
    case Cell::lstm:
      return run(LstmBackward<T>{n, at(s.saved), at(s.cell_before), at(s.cell_after), grad_output,
                                 grad_next, grad_state, grad_input});
    case Cell::gru:
      return run(GruBackward<T>{n, at(s.saved), at(s.hidden_before), grad_output, grad_next,
                                grad_state, grad_input, at(s.grad_recurrent)});
  }
}

}  // namespace ringrad::kernels
