// Recurrent layers: one layer in one direction, over a whole sequence.
//
//     input (T, B, G H)      the inputs' share of the gates, of all steps (one matrix product)
//        |
//     step t:   h[t-1] --- x weight^T + bias ---.
//               input[t] -----------------------+--> gates --> h[t]      (cell_ops.h)
//               c[t-1] -------------------------'         --> c[t]       (LSTM only)
//
// A step is one matrix product and one pass over the gates. Backward goes through the steps in
// reverse: one pass over the gates' gradients, one product. The gradient of the weight needs all
// steps at once, so it is one product as well; the caller computes it from `grad_recurrent` and
// the hidden states.
//
// Extents: T steps, B sequences, H hidden units, G gates: 1 in a plain cell (tanh or relu), 3 in a
// GRU (reset, update, new), 4 in an LSTM (input, forget, cell, output).

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

enum class Cell { tanh, relu, gru, lstm };

constexpr int num_gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// What forward computes and backward needs. The states are in the order of the sequence; the
/// initial one comes first or, in reverse, last.
struct RecurrentSteps {
  Tensor hidden = {};  ///< (T + 1, B, H)
  Tensor cells = {};   ///< (T + 1, B, H); undefined unless LSTM
  Tensor saved =
      {};  ///< (T, B, ...), what cell_ops.h keeps of the gates; undefined for a plain cell
};

/// Shapes:  input (T, B, G H), weight (G H, H), bias (G H) or undefined, hidden and cell (B, H);
///          cell is undefined unless LSTM; T may be 0
/// DTypes:  one floating dtype
/// Throws:  ShapeError, DTypeError, DeviceError
RecurrentSteps recurrent_forward(Cell cell, const Tensor& input, const Tensor& weight,
                                 const Tensor& bias, const Tensor& initial_hidden,
                                 const Tensor& initial_cell, bool reverse,
                                 Where where = Where::current());

/// Each gradient has the shape of the tensor that it belongs to.
struct RecurrentGradients {
  Tensor input;      ///< (T, B, G H)
  Tensor recurrent;  ///< (T, B, G H), of weight h + bias: the same tensor as `input` unless GRU
  Tensor hidden;     ///< (B, H), of the initial states
  Tensor cell;
};

/// grad_output (T, B, H) is the gradient with respect to the hidden states. grad_last_cell (B, H)
/// is the gradient with respect to the last cell state; undefined, it means zero.
RecurrentGradients recurrent_backward(Cell cell, const RecurrentSteps& steps, const Tensor& weight,
                                      const Tensor& grad_output, const Tensor& grad_last_cell,
                                      bool reverse, Where where = Where::current());

}  // namespace ringrad::kernels
