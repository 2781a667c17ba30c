// Runs programs, one JSON object per line of standard input, and prints one line of results for
// each.
//
//     {"inputs": [{"shape": [2, 3], "dtype": "float32", "values": [...], "learns": true}, ...],
//      "steps": [{"op": "mul", "in": [0, 1], "with": {}}, ...],
//      "weights": [...]}
//
//     {"result": T, "plain": [T, ...], "gradients": [T, ...], "second": [T, ...]}
//     {"error": "..."}
//
// T is {"shape": [...], "values": "..."}. The result of a step is the next tensor. The loss is the
// sum of the last result's elements times the weights. "gradients" are the gradients of the loss
// with respect to the inputs that learn, recorded; "second" are the gradients of their sum,
// weighted by a ramp from 0.5 to 1.5. "plain" are the gradients of the usual, fused backward pass.
// A missing gradient is null.

#include <cstdio>
#include <iostream>
#include <string>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/fuzz_torch/operators.h"

namespace ringrad::fuzz_torch {
namespace {

using nlohmann::json;

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    if (concat(dtype) == name) return dtype;
  throw ValueError("a dtype must be a floating one; got " + name, Where::current());
}

// Numbers are text: JSON has no infinity.
Tensor tensor_of(const json& values, const Shape& shape, DType dtype) {
  const Tensor wide = empty(shape, {.dtype = DType::float64});
  double* at = wide.data<double>();
  for (const json& value : values) *at++ = std::stod(value.get<std::string>());
  return to(wide, dtype);
}

json text_of(const Tensor& x) {
  if (!x.defined()) return nullptr;
  json shape = json::array();
  for (const std::int64_t extent : x.shape()) shape.push_back(extent);
  std::string values;
  char number[32];
  for (const double value : x.to_vector<double>()) {
    std::snprintf(number, sizeof number, "%.17g ", value);
    values += number;
  }
  return {{"shape", shape}, {"values", values}};
}

std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Tensor>& inputs,
                                 bool create_graph) {
  if (!loss.requires_grad()) return std::vector<Tensor>(inputs.size());
  return grad({&loss, 1}, inputs, {}, {.retain_graph = true, .create_graph = create_graph});
}

Tensor ramp(const Shape& shape) {
  const Tensor x = empty(shape, {.dtype = DType::float64});
  const std::int64_t n = x.numel();
  for (std::int64_t i = 0; i < n; ++i)
    x.data<double>()[i] = n == 1 ? 0.5 : 0.5 + static_cast<double>(i) / static_cast<double>(n - 1);
  return x;
}

json texts_of(const std::vector<Tensor>& list) {
  json result = json::array();
  for (const Tensor& x : list) result.push_back(text_of(x));
  return result;
}

json run(const json& program) {
  std::vector<Tensor> tensors, learning;
  for (const json& input : program["inputs"]) {
    tensors.push_back(
        tensor_of(input["values"], shape_of(input["shape"]), dtype_named(input["dtype"])));
    if (!input["learns"]) continue;
    tensors.back().set_requires_grad();
    learning.push_back(tensors.back());
  }
  for (const json& step : program["steps"]) {
    std::vector<Tensor> in;
    for (const std::size_t i : step["in"]) in.push_back(tensors.at(i));
    tensors.push_back(operators().at(step["op"])(in, step["with"]));
  }
  const Tensor& y = tensors.back();
  const Tensor loss = sum(y * tensor_of(program["weights"], y.shape(), y.dtype()));
  const std::vector<Tensor> plain = gradients_of(loss, learning, false);
  const std::vector<Tensor> gradients = gradients_of(loss, learning, true);
  Tensor of_gradients;
  for (const Tensor& gradient : gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    const Tensor part = sum(to(gradient, DType::float64) * ramp(gradient.shape()));
    of_gradients = of_gradients.defined() ? of_gradients + part : part;
  }
  std::vector<Tensor> second(learning.size());
  if (of_gradients.defined()) second = gradients_of(of_gradients, learning, false);
  return {{"result", text_of(y)},
          {"plain", texts_of(plain)},
          {"gradients", texts_of(gradients)},
          {"second", texts_of(second)}};
}

}  // namespace
}  // namespace ringrad::fuzz_torch

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      answer = ringrad::fuzz_torch::run(nlohmann::json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer << std::endl;
  }
}
