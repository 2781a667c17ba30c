// The operators of C++ on tensors, by the functions of elementwise.h.

#include "ringrad/autograd/elementwise.h"

namespace ringrad {

Tensor operator-(Located x) { return neg(x.tensor, x.where); }

#define RINGRAD_OPERATOR(op, name, swapped)                                              \
  Tensor operator op(Located a, Located b) { return name(a.tensor, b.tensor, a.where); } \
  Tensor operator op(Located a, Scalar b) { return name(a.tensor, b, a.where); }         \
  Tensor operator op(Scalar a, Located b) { return swapped; }
RINGRAD_OPERATOR(+, add, add(b.tensor, a, b.where))
RINGRAD_OPERATOR(-, sub, sub(a, b.tensor, b.where))
RINGRAD_OPERATOR(*, mul, mul(b.tensor, a, b.where))
RINGRAD_OPERATOR(/, div, div(a, b.tensor, b.where))
RINGRAD_OPERATOR(==, eq, eq(b.tensor, a, b.where))
RINGRAD_OPERATOR(!=, ne, ne(b.tensor, a, b.where))
RINGRAD_OPERATOR(<, lt, gt(b.tensor, a, b.where))
RINGRAD_OPERATOR(<=, le, ge(b.tensor, a, b.where))
RINGRAD_OPERATOR(>, gt, lt(b.tensor, a, b.where))
RINGRAD_OPERATOR(>=, ge, le(b.tensor, a, b.where))
#undef RINGRAD_OPERATOR

}  // namespace ringrad
