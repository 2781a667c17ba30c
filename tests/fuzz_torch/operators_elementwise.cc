#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

#define RINGRAD_UNARY(f) \
  { #f, of(static_cast <Unary>(f)) }
#define RINGRAD_BINARY(f) \
  { #f, of(static_cast <Binary>(f)) }
#define RINGRAD_WITH_NUMBER(f) \
  { #f "_number", of(static_cast <WithNumber>(f)) }

Operators of_one_tensor() {
  return {
      RINGRAD_UNARY(neg),
      RINGRAD_UNARY(abs),
      RINGRAD_UNARY(sign),
      RINGRAD_UNARY(square),
      RINGRAD_UNARY(exp),
      RINGRAD_UNARY(expm1),
      RINGRAD_UNARY(log),
      RINGRAD_UNARY(log1p),
      RINGRAD_UNARY(sqrt),
      RINGRAD_UNARY(rsqrt),
      RINGRAD_UNARY(reciprocal),
      RINGRAD_UNARY(sin),
      RINGRAD_UNARY(cos),
      RINGRAD_UNARY(tan),
      RINGRAD_UNARY(asin),
      RINGRAD_UNARY(acos),
      RINGRAD_UNARY(atan),
      RINGRAD_UNARY(sinh),
      RINGRAD_UNARY(cosh),
      RINGRAD_UNARY(tanh),
      RINGRAD_UNARY(asinh),
      RINGRAD_UNARY(acosh),
      RINGRAD_UNARY(atanh),
      RINGRAD_UNARY(sigmoid),
      RINGRAD_UNARY(erf),
      RINGRAD_UNARY(relu),
      RINGRAD_UNARY(gelu),
      RINGRAD_UNARY(gelu_tanh),
      RINGRAD_UNARY(silu),
      RINGRAD_UNARY(floor),
      RINGRAD_UNARY(ceil),
      RINGRAD_UNARY(round),
      RINGRAD_UNARY(trunc),
      RINGRAD_UNARY(bitwise_not),
      RINGRAD_UNARY(logical_not),
      RINGRAD_UNARY(isnan),
      RINGRAD_UNARY(isfinite),
      {"softplus",
       [](In in, Arguments with) { return softplus(in[0], with["beta"], with["threshold"]); }},
      {"leaky_relu", [](In in, Arguments) { return leaky_relu(in[0], 0.2); }},
      {"elu", [](In in, Arguments) { return elu(in[0], 1.5); }},
      {"nan_to_num", [](In in, Arguments) { return nan_to_num(in[0], 2, 3, -3); }},
      {"clamp",
       [](In in, Arguments with) {
         return clamp(in[0], scalar_of(with["low"]), scalar_of(with["high"]));
       }},
      {"dropout",
       [](In in, Arguments with) { return dropout(in[0], with["p"], with["training"]); }},
  };
}

Operators of_two_tensors() {
  return {
      RINGRAD_BINARY(add),
      RINGRAD_BINARY(add_relu),
      RINGRAD_BINARY(sub),
      RINGRAD_BINARY(mul),
      RINGRAD_BINARY(div),
      RINGRAD_BINARY(pow),
      RINGRAD_BINARY(floor_divide),
      RINGRAD_BINARY(remainder),
      RINGRAD_BINARY(atan2),
      RINGRAD_BINARY(maximum),
      RINGRAD_BINARY(minimum),
      RINGRAD_BINARY(relu_gradient),
      RINGRAD_BINARY(bitwise_and),
      RINGRAD_BINARY(bitwise_or),
      RINGRAD_BINARY(bitwise_xor),
      RINGRAD_BINARY(eq),
      RINGRAD_BINARY(ne),
      RINGRAD_BINARY(lt),
      RINGRAD_BINARY(le),
      RINGRAD_BINARY(gt),
      RINGRAD_BINARY(ge),
      RINGRAD_BINARY(logical_and),
      RINGRAD_BINARY(logical_or),
      {"lerp", [](In in, Arguments) { return lerp(in[0], in[1], in[2]); }},
      {"where", [](In in, Arguments) { return where(in[0], in[1], in[2]); }},
  };
}

Operators of_a_tensor_and_a_number() {
  return {
      RINGRAD_WITH_NUMBER(add),
      RINGRAD_WITH_NUMBER(sub),
      RINGRAD_WITH_NUMBER(mul),
      RINGRAD_WITH_NUMBER(div),
      RINGRAD_WITH_NUMBER(pow),
      RINGRAD_WITH_NUMBER(floor_divide),
      RINGRAD_WITH_NUMBER(remainder),
      RINGRAD_WITH_NUMBER(maximum),
      RINGRAD_WITH_NUMBER(minimum),
      RINGRAD_WITH_NUMBER(eq),
      RINGRAD_WITH_NUMBER(lt),
      RINGRAD_WITH_NUMBER(ge),
      {"number_sub", [](In in, Arguments with) { return sub(scalar_of(with["number"]), in[0]); }},
      {"number_div", [](In in, Arguments with) { return div(scalar_of(with["number"]), in[0]); }},
      {"number_pow", [](In in, Arguments with) { return pow(scalar_of(with["number"]), in[0]); }},
      {"lerp_number",
       [](In in, Arguments with) { return lerp(in[0], in[1], scalar_of(with["number"])); }},
  };
}

}  // namespace

Operators elementwise_operators() {
  Operators result = of_one_tensor();
  result.merge(of_two_tensors());
  result.merge(of_a_tensor_and_a_number());
  return result;
}

}  // namespace ringrad::fuzz_torch
