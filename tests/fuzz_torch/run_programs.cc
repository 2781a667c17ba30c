// Runs programs, one JSON object per line of standard input, and prints one line of results for
// each. `--device cuda` runs them on a GPU, a simulated one by default.
//
//     {"inputs": [{"shape": [2, 3], "dtype": "float32", "learns": true, "values": ["0.5", ...],
//                  "order": [1, 0], "gap": 2}, ...],
//      "steps": [{"op": "mul", "in": [0, 1], "with": {}, "recorded": true}, ...],
//      "sinks": [2, 4]}
//
//     {"steps": [T, ...], "plain": [T, ...], "gradients": [T, ...], "second": [T, ...]}
//     {"steps": [T, ...], "error": "..."}
//
// T is {"shape": [...], "dtype": "...", "values": "..."}; a missing gradient is null. The axes of
// an input lie in memory in the given order, and of its last axis there only every gap-th place is
// used. The result of a step is the next tensor. The loss is the sum of the sinks' elements, with
// the weights of weights_of(). "gradients" are the gradients of the loss with respect to the inputs
// that learn, recorded; "second" are the gradients of their sum, weighted by a ramp from 0.5 to
// 1.5. "plain" are the gradients of the usual backward pass, which takes the fused kernels. If the
// program has "checkpoint": true, they come from backward(), and there are no others:
// activation_checkpoint() supports neither grad() nor second derivatives.

#include <charconv>
#include <iostream>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

using nlohmann::json;

Tensor on_host(const Shape& shape, DType dtype) {
  return empty(shape, {.dtype = dtype, .device = Device("cpu")});
}

// Numbers are text: JSON has no infinity.
Tensor values_of(const json& input) {
  const Tensor wide = on_host(shape_of(input["shape"]), DType::float64);
  double* at = wide.data<double>();
  for (const json& value : input["values"]) *at++ = std::stod(value.get<std::string>());
  return to(to(wide, dtype_of_name(input["dtype"])), default_device());
}

// A copy of x with its axes in another order in memory, and with unused places between elements.
Tensor laid_out(const Tensor& x, const Shape& order, std::int64_t gap) {
  if (x.dims() == 0) return x;
  Shape stored, place = order;
  for (int i = 0; i < order.size(); ++i) {
    stored.push_back(x.size(order[i]));
    place[static_cast<int>(order[i])] = i;
  }
  stored[order.size() - 1] *= gap;
  const Tensor memory = zeros(stored, {.dtype = x.dtype()});
  const Tensor view = permute(slice(memory, -1, 0, stored[order.size() - 1], gap), place);
  return copy_(view, x);
}

json text_of(const Tensor& x) {
  if (!x.defined()) return nullptr;
  json shape = json::array();
  for (const std::int64_t extent : x.shape()) shape.push_back(extent);
  std::string values;
  char number[32];
  for (const double value : x.to_vector<double>()) {
    values.append(number, std::to_chars(number, number + sizeof number, value).ptr);
    values += ' ';
  }
  return {{"shape", shape}, {"dtype", name(x.dtype())}, {"values", values}};
}

json texts_of(const std::vector<Tensor>& list) {
  json result = json::array();
  for (const Tensor& x : list) result.push_back(text_of(x));
  return result;
}

std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Tensor>& inputs,
                                 bool create_graph) {
  if (!loss.defined() || !loss.requires_grad()) return std::vector<Tensor>(inputs.size());
  return grad({&loss, 1}, inputs, {}, {.retain_graph = true, .create_graph = create_graph});
}

// Of the elements of a sink: multiples of 1/8, which every dtype holds.
Tensor weights_of(const Shape& shape) {
  const Tensor x = on_host(shape, DType::float64);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = (static_cast<double>(7 * i % 11) - 5.5) / 4;
  return to(x, default_device());
}

Tensor ramp(const Shape& shape) {
  const Tensor x = on_host(shape, DType::float64);
  const std::int64_t n = x.numel();
  for (std::int64_t i = 0; i < n; ++i)
    x.data<double>()[i] = n == 1 ? 0.5 : 0.5 + static_cast<double>(i) / static_cast<double>(n - 1);
  return to(x, default_device());
}

// The sum of all products; undefined for no factors.
Tensor weighted_sum(const std::vector<Tensor>& list, Tensor (*weights)(const Shape&)) {
  Tensor total;
  for (const Tensor& x : list) {
    if (!x.defined() || !x.requires_grad()) continue;
    const Tensor part = sum(to(x, DType::float64) * weights(x.shape()));
    total = total.defined() ? total + part : part;
  }
  return total;
}

void run(const json& program, json& answer) {
  std::vector<Tensor> tensors, learning;
  for (const json& input : program["inputs"]) {
    tensors.push_back(laid_out(values_of(input), shape_of(input["order"]), input["gap"]));
    if (!input["learns"]) continue;
    tensors.back().set_requires_grad();
    learning.push_back(tensors.back());
  }
  answer["steps"] = json::array();
  for (const json& step : program["steps"]) {
    std::vector<Tensor> in;
    for (const std::size_t i : step["in"]) in.push_back(tensors.at(i));
    const GradMode mode(step["recorded"].get<bool>());
    tensors.push_back(operators().at(step["op"])(in, step["with"]));
    answer["steps"].push_back(text_of(tensors.back()));
  }
  std::vector<Tensor> sinks;
  for (const std::size_t i : program["sinks"]) sinks.push_back(tensors.at(i));
  const Tensor loss = weighted_sum(sinks, weights_of);
  if (program.value("checkpoint", false)) {
    if (loss.defined() && loss.requires_grad()) loss.backward();
    std::vector<Tensor> gradients;
    for (const Tensor& x : learning) gradients.push_back(x.grad());
    answer["plain"] = texts_of(gradients);
    return;
  }
  answer["plain"] = texts_of(gradients_of(loss, learning, false));
  const std::vector<Tensor> gradients = gradients_of(loss, learning, true);
  answer["gradients"] = texts_of(gradients);
  answer["second"] = texts_of(gradients_of(weighted_sum(gradients, ramp), learning, false));
}

}  // namespace
}  // namespace ringrad::fuzz_torch

int main(int count, char** arguments) {
  using namespace ringrad;
  if (count == 3 && std::string(arguments[1]) == "--device") {
    set_default_device(Device(arguments[2]));
  } else if (count != 1) {
    std::cerr << "run_programs: usage: run_programs [--device cuda]\n";
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      fuzz_torch::run(nlohmann::json::parse(line), answer);
    } catch (const std::exception& error) {
      answer["error"] = error.what();
    }
    std::cout << answer << std::endl;
  }
}
