// RNN, LSTM and GRU: layers that read a sequence step by step.
//
//     nn::LSTM lstm(128, 256, {.num_layers = 2});
//     auto [output, state] = lstm.run(x);          x (T, B, 128)  ->  output (T, B, 256)
//     auto [more, next] = lstm.run(x2, state);     continues where the first sequence ended
//
//                output          of the last layer, both directions side by side
//                  ^
//        layer 1 | --> | <-- |   num_layers, each reads the output of the one below
//        layer 0 | --> | <-- |   with bidirectional
//                  x
//
// Parameters are called and laid out as PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0,
// bias_hh_l0, and the same with _reverse.

#pragma once

#include <string>
#include <vector>

#include "ringrad/autograd/recurrent/recurrent.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bidirectional = false;
  bool batch_first = false;  ///< x and output are (B, T, ...) instead of (T, B, ...)
  bool bias = true;
  double dropout = 0;  ///< in training, between layers
};

/// What a sequence leaves behind. Extents: L layers times directions; the directions of a layer are
/// adjacent.
struct RecurrentState {
  Tensor hidden = {};  ///< (L, B, H)
  Tensor cell = {};    ///< (L, B, H); undefined unless LSTM
};

struct RecurrentResult {
  Tensor output;  ///< (T, B, D H), with batch_first (B, T, D H); D directions
  RecurrentState state;
};

/// The common part.
///
/// Parameters:  for each layer and direction, from U(-1/sqrt(H), 1/sqrt(H)):
///              weight_ih (G H, features), weight_hh (G H, H), bias_ih (G H), bias_hh (G H)
class Recurrent : public Module {
 public:
  /// The output, from states of zeros.
  Tensor forward(const Tensor& x, Where at = Where::current()) override;

  /// The output and the last states. An undefined state means zeros.
  ///
  /// Throws:  ShapeError unless x is (T, B, input_size), with batch_first (B, T, input_size), with
  ///          T > 0, and states fit it; ValueError for only one of an LSTM's two states, or for a
  ///          cell state in another layer
  RecurrentResult run(const Tensor& x, const RecurrentState& state = {},
                      Where at = Where::current());

  std::string describe() const override;

 protected:
  Recurrent(const char* name, Cell cell, std::int64_t input_size, std::int64_t hidden_size,
            const RecurrentOptions& options, Where where);

 private:
  // The parameters of one layer in one direction.
  struct Direction {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  };

  RecurrentState checked(const RecurrentState& state, const Tensor& x, Where at) const;

  const char* name_;
  Cell cell_;
  std::int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  std::vector<Direction> directions_;  // forward and reverse of layer 0, of layer 1, ...
};

/// h = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu of it.
///
/// Throws:  ValueError unless sizes and num_layers are positive and 0 <= dropout < 1
class RNN : public Recurrent {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {},
      bool relu = false, Where where = Where::current())
      : Recurrent("RNN", relu ? Cell::relu : Cell::tanh, input_size, hidden_size, options, where) {}
};

/// Long short-term memory. Gates are in the order input, forget, cell, output: see LstmForward in
/// kernels/recurrent/cell_ops.h. Throws as RNN.
class LSTM : public Recurrent {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {},
       Where where = Where::current())
      : Recurrent("LSTM", Cell::lstm, input_size, hidden_size, options, where) {}
};

/// Gated recurrent units. Gates are in the order reset, update, new: see GruForward in
/// kernels/recurrent/cell_ops.h. Throws as RNN.
class GRU : public Recurrent {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {},
      Where where = Where::current())
      : Recurrent("GRU", Cell::gru, input_size, hidden_size, options, where) {}
};

}  // namespace ringrad::nn
