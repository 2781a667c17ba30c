#include "ringrad/nn/layers/recurrent.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"

namespace ringrad::nn {

Recurrent::Recurrent(const char* name, Cell cell, std::int64_t input_size, std::int64_t hidden_size,
                     const RecurrentOptions& options, Where where)
    : name_(name),
      cell_(cell),
      input_size_(input_size),
      hidden_size_(hidden_size),
      options_(options) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // products fit
  RINGRAD_CHECK(input_size > 0 && hidden_size > 0 && hidden_size <= kMost && options.num_layers > 0,
                ValueError, where, name,
                ": sizes and num_layers must be positive, and hidden_size below 2^31; got ",
                input_size, ", ", hidden_size, " and ", options.num_layers);
  RINGRAD_CHECK(options.dropout >= 0 && options.dropout < 1, ValueError, where, name,
                ": dropout must be in [0, 1); got ", options.dropout);
  const std::int64_t width = kernels::num_gates(cell) * hidden_size;
  const std::int64_t num_directions = options.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const auto make = [&](const std::string& of, const Shape& shape) {
    const Tensor made = parameter(of, empty(shape), where);
    const NoGradGuard guard;
    uniform_(made, -bound, bound);
    return made;
  };
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (const char* suffix : {"", "_reverse"}) {
      if (*suffix && !options.bidirectional) continue;
      const std::int64_t features = layer == 0 ? input_size : num_directions * hidden_size;
      const std::string end = concat("_l", layer, suffix);
      Direction direction{.weight_ih = make("weight_ih" + end, {width, features}),
                          .weight_hh = make("weight_hh" + end, {width, hidden_size}),
                          .bias_ih = {},
                          .bias_hh = {}};
      if (options.bias) {
        direction.bias_ih = make("bias_ih" + end, {width});
        direction.bias_hh = make("bias_hh" + end, {width});
      }
      directions_.push_back(direction);
    }
}

RecurrentState Recurrent::checked(const RecurrentState& state, const Tensor& x, Where at) const {
  const Shape shape{static_cast<std::int64_t>(directions_.size()), x.shape()[1], hidden_size_};
  const bool has_cell = cell_ == Cell::lstm;
  RecurrentState result = state;
  if (!state.hidden.defined() && !state.cell.defined()) {
    const Options options{.dtype = x.dtype(), .device = x.device()};
    result.hidden = zeros(shape, options, at);
    if (has_cell) result.cell = zeros(shape, options, at);
  }
  RINGRAD_CHECK(result.hidden.defined() && result.cell.defined() == has_cell, ValueError, at, name_,
                ": the state must have a hidden state and, in an LSTM only, a cell state; got ",
                result.hidden.defined() ? "the first" : "no hidden state",
                result.cell.defined() ? " and a cell state" : " and no cell state");
  for (const Tensor& part : {result.hidden, result.cell})
    RINGRAD_CHECK(!part.defined() || part.shape() == shape, ShapeError, at, name_,
                  ": a state must be ", shape, " for x ", x.shape(), "; got ",
                  part.defined() ? part.shape() : Shape{});
  return result;
}

RecurrentResult Recurrent::run(const Tensor& x, const RecurrentState& state, Where at) {
  check_not_moved_from(at);
  const std::string_view extents = options_.batch_first ? "(B, T, " : "(T, B, ";
  RINGRAD_CHECK(
      x.dims(at) == 3 && x.shape()[2] == input_size_ && x.shape()[options_.batch_first ? 1 : 0] > 0,
      ShapeError, at, name_, ": x must be ", extents, input_size_, ") with at least one step; got ",
      x.shape());
  Tensor y = options_.batch_first ? transpose(x, 0, 1, at) : x;
  const RecurrentState initial = checked(state, y, at);
  const std::size_t per_layer = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> hidden, cells;
  for (std::size_t first = 0; first < directions_.size(); first += per_layer) {
    if (first > 0 && options_.dropout > 0) y = dropout(y, options_.dropout, is_training());
    std::vector<Tensor> outputs;
    for (std::size_t d = first; d < first + per_layer; ++d) {
      const Direction& direction = directions_[d];
      const auto of_this = [&](const Tensor& part) {
        return part.defined() ? select(part, 0, static_cast<std::int64_t>(d), at) : part;
      };
      const Tensor input = linear(y, direction.weight_ih, direction.bias_ih, false, at);
      const RecurrentOutput result =
          recurrent(cell_, input, direction.weight_hh, direction.bias_hh, of_this(initial.hidden),
                    of_this(initial.cell), d > first, at);
      outputs.push_back(result.output);
      hidden.push_back(result.last_hidden);
      if (result.last_cell.defined()) cells.push_back(result.last_cell);
    }
    y = per_layer == 1 ? outputs[0] : concatenate(outputs, 2, at);
  }
  return {.output = options_.batch_first ? transpose(y, 0, 1, at) : y,
          .state = {.hidden = stack(hidden, 0, at),
                    .cell = cells.empty() ? Tensor() : stack(cells, 0, at)}};
}

Tensor Recurrent::forward(const Tensor& x, Where at) { return run(x, {}, at).output; }

std::string Recurrent::describe() const {
  return concat(name_, '(', input_size_, ", ", hidden_size_,
                options_.num_layers > 1 ? concat(", ", options_.num_layers, " layers") : "",
                options_.bidirectional ? ", bidirectional)" : ")");
}

}  // namespace ringrad::nn
