// The operators of C++ on tensors, by the functions of elementwise.h.

#include "ringrad/autograd/elementwise.h"

namespace ringrad {

Tensor operator-(Located x) { return neg(x.tensor, x.where); }

Tensor operator+(Located a, Located b) { return add(a.tensor, b.tensor, a.where); }
Tensor operator+(Located a, Scalar b) { return add(a.tensor, b, a.where); }
Tensor operator+(Scalar a, Located b) { return add(b.tensor, a, b.where); }
Tensor operator-(Located a, Located b) { return sub(a.tensor, b.tensor, a.where); }
Tensor operator-(Located a, Scalar b) { return sub(a.tensor, b, a.where); }
Tensor operator-(Scalar a, Located b) { return sub(a, b.tensor, b.where); }
Tensor operator*(Located a, Located b) { return mul(a.tensor, b.tensor, a.where); }
Tensor operator*(Located a, Scalar b) { return mul(a.tensor, b, a.where); }
Tensor operator*(Scalar a, Located b) { return mul(b.tensor, a, b.where); }
Tensor operator/(Located a, Located b) { return div(a.tensor, b.tensor, a.where); }
Tensor operator/(Located a, Scalar b) { return div(a.tensor, b, a.where); }
Tensor operator/(Scalar a, Located b) { return div(a, b.tensor, b.where); }

Tensor operator==(Located a, Located b) { return eq(a.tensor, b.tensor, a.where); }
Tensor operator==(Located a, Scalar b) { return eq(a.tensor, b, a.where); }
Tensor operator==(Scalar a, Located b) { return eq(b.tensor, a, b.where); }
Tensor operator!=(Located a, Located b) { return ne(a.tensor, b.tensor, a.where); }
Tensor operator!=(Located a, Scalar b) { return ne(a.tensor, b, a.where); }
Tensor operator!=(Scalar a, Located b) { return ne(b.tensor, a, b.where); }
Tensor operator<(Located a, Located b) { return lt(a.tensor, b.tensor, a.where); }
Tensor operator<(Located a, Scalar b) { return lt(a.tensor, b, a.where); }
Tensor operator<(Scalar a, Located b) { return gt(b.tensor, a, b.where); }
Tensor operator<=(Located a, Located b) { return le(a.tensor, b.tensor, a.where); }
Tensor operator<=(Located a, Scalar b) { return le(a.tensor, b, a.where); }
Tensor operator<=(Scalar a, Located b) { return ge(b.tensor, a, b.where); }
Tensor operator>(Located a, Located b) { return gt(a.tensor, b.tensor, a.where); }
Tensor operator>(Located a, Scalar b) { return gt(a.tensor, b, a.where); }
Tensor operator>(Scalar a, Located b) { return lt(b.tensor, a, b.where); }
Tensor operator>=(Located a, Located b) { return ge(a.tensor, b.tensor, a.where); }
Tensor operator>=(Located a, Scalar b) { return ge(a.tensor, b, a.where); }
Tensor operator>=(Scalar a, Located b) { return le(b.tensor, a, b.where); }

}  // namespace ringrad
