#include <algorithm>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/jacobian.h"
#include "ringrad/autograd/linalg/factor.h"
#include "ringrad/autograd/linalg/solve.h"
#include "ringrad/autograd/matmul/contraction.h"
#include "ringrad/autograd/matmul/einsum.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

Operators reductions() {
  return {
      {"sum", of(static_cast<Reduce>(sum))},
      {"mean", of(static_cast<Reduce>(mean))},
      {"prod", of(static_cast<Reduce>(prod))},
      {"logsumexp", of(static_cast<Reduce>(logsumexp))},
      {"any", of(static_cast<Reduce>(any))},
      {"all", of(static_cast<Reduce>(all))},
      {"max", of(static_cast<Reduce>(max))},
      {"min", of(static_cast<Reduce>(min))},
      {"vector_norm",
       [](In in, Arguments with) {
         const std::string order = with["order"];
         return vector_norm(in[0], std::stod(order), shape_of(with["axes"]), with["keepdim"]);
       }},
      {"stddev",
       [](In in, Arguments with) {
         return stddev(in[0], shape_of(with["axes"]), with["correction"], with["keepdim"]);
       }},
      {"var",
       [](In in, Arguments with) {
         return var(in[0], shape_of(with["axes"]), with["correction"], with["keepdim"]);
       }},
      {"argmax",
       [](In in, Arguments with) {
         return argmax(in[0], whole_or_none(with["axis"]), with["keepdim"]);
       }},
      {"argmin",
       [](In in, Arguments with) {
         return argmin(in[0], whole_or_none(with["axis"]), with["keepdim"]);
       }},
  };
}

Operators products() {
  return {
      {"matmul", of(static_cast<Binary>(matmul))},
      {"bmm", of(static_cast<Binary>(bmm))},
      {"outer", of(static_cast<Binary>(outer))},
      {"einsum", [](In in, Arguments with) { return einsum(with["equation"], in); }},
      {"tensordot", [](In in, Arguments with) { return tensordot(in[0], in[1], with["count"]); }},
      {"tensordot_axes",
       [](In in, Arguments with) {
         return tensordot(in[0], in[1], shape_of(with["a_axes"]), shape_of(with["b_axes"]));
       }},
      {"linear",
       [](In in, Arguments with) { return linear(in[0], in[1], in[2], with["relu"].get<bool>()); }},
  };
}

Tensor transposed(const Tensor& x) { return transpose(x, -1, -2); }

// x x^T + n: symmetric, with eigenvalues of at least n.
Tensor positive_definite(const Tensor& x) {
  const std::int64_t n = x.size(-1);
  return matmul(x, transposed(x)) + eye(n, {.dtype = x.dtype()}) * n;
}

// x + 5 on the diagonal (..., m, n): of full rank for elements of x below 2.
Tensor of_full_rank(const Tensor& x) {
  const std::int64_t m = x.size(-2), n = x.size(-1), most = std::max(m, n);
  const Tensor unit = eye(most, {.dtype = x.dtype()});
  return tanh(x) + slice(slice(unit, 0, 0, m), 1, 0, n) * 5;
}

// Functions of factors that do not depend on the signs of vectors, which are LAPACK's choice.
Tensor of_factors(const linalg::QrResult& factors) {
  return matmul(factors.q, abs(factors.r) * factors.r);
}
Tensor of_factors(const linalg::SvdResult& factors) {
  return matmul(factors.u * unsqueeze(square(factors.s), -2), factors.vh);
}
Tensor of_factors(const linalg::EighResult& factors) {
  return matmul(factors.vectors * unsqueeze(square(factors.values), -2),
                transposed(factors.vectors));
}

// On diagonals 1, 2, 3 ..., so that no two eigenvalues nearly coincide.
Tensor with_distances(const Tensor& x) {
  const std::int64_t m = x.size(-2), n = x.size(-1);
  const Tensor far = to(arange(1, std::max(m, n) + 1), x.dtype()) * 4;
  const Tensor unit = eye(std::max(m, n), {.dtype = x.dtype()});
  return tanh(x) + slice(slice(unit * far, 0, 0, m), 1, 0, n);
}

Operators linear_algebra() {
  return {
      {"cholesky", [](In in, Arguments) { return linalg::cholesky(positive_definite(in[0])); }},
      {"qr", [](In in, Arguments) { return of_factors(linalg::qr(of_full_rank(in[0]))); }},
      {"svd", [](In in, Arguments) { return of_factors(linalg::svd(with_distances(in[0]))); }},
      {"eigh",
       [](In in, Arguments) {
         const Tensor x = with_distances(in[0]);
         return of_factors(linalg::eigh(x + transposed(x)));
       }},
      {"solve", [](In in, Arguments) { return linalg::solve(of_full_rank(in[0]), in[1]); }},
      {"inv", [](In in, Arguments) { return linalg::inv(of_full_rank(in[0])); }},
      {"det", [](In in, Arguments) { return linalg::det(of_full_rank(in[0])); }},
      {"slogdet", [](In in, Arguments) { return linalg::slogdet(of_full_rank(in[0])).logabsdet; }},
      {"lstsq", [](In in, Arguments) { return linalg::lstsq(of_full_rank(in[0]), in[1]); }},
  };
}

// A function of which the derivatives below are taken.
Tensor wave(const Tensor& x) { return sin(x) * sum(square(x)); }

Operators derivatives() {
  return {
      {"jacobian", [](In in, Arguments) { return jacobian(wave, in[0]); }},
      {"hessian",
       [](In in, Arguments) {
         return hessian([](const Tensor& x) { return sum(wave(x)); }, in[0]);
       }},
      {"jvp", [](In in, Arguments) { return jvp(wave, in[0], in[1]); }},
  };
}

}  // namespace

Operators reduction_operators() {
  Operators result = reductions();
  for (Operators some : {products(), linear_algebra(), derivatives()}) result.merge(some);
  return result;
}

}  // namespace ringrad::fuzz_torch
