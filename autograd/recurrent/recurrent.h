// One recurrent layer in one direction. nn/layers/recurrent.h makes layers of it.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/recurrent/recurrent.h"

namespace ringrad {

using kernels::Cell;

struct RecurrentOutput {
  Tensor output;       ///< (T, B, H), the hidden states after each step
  Tensor last_hidden;  ///< (B, H); in reverse that of step 0
  Tensor last_cell;    ///< (B, H); undefined unless LSTM
};

/// Runs a cell (kernels/recurrent/cell_ops.h) over a sequence, from the last step to the first if
/// `reverse`.
///
/// Shapes:  input (T, B, G H), the inputs' share of the G gates, as linear() computes it;
///          weight (G H, H); bias (G H) or undefined; hidden (B, H); cell_state (B, H), undefined
///          unless LSTM
/// DTypes:  one floating dtype; 16-bit ones under autocast
/// Saves:   weight, all states and gates
/// Throws:  ShapeError, DTypeError, DeviceError; ValueError if a cell state is missing, or there is
///          one that the cell does not have
RecurrentOutput recurrent(Cell cell, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& hidden, const Tensor& cell_state = {}, bool reverse = false,
                          Where where = Where::current());

}  // namespace ringrad
