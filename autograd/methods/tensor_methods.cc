// The members that Tensor inherits from core/tensor_methods.h, which are functions' other names.

#include "ringrad/core/tensor_methods.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"

// The member with these parameters, and the arguments that it passes on after the tensor itself.
#define RINGRAD_METHOD(name, parameters, ...)                             \
  Tensor TensorMethods::name parameters const {                           \
    return ringrad::name(static_cast<const Tensor&>(*this), __VA_ARGS__); \
  }

namespace ringrad {

RINGRAD_METHOD(neg, (Where where), where)
RINGRAD_METHOD(abs, (Where where), where)
RINGRAD_METHOD(square, (Where where), where)
RINGRAD_METHOD(exp, (Where where), where)
RINGRAD_METHOD(log, (Where where), where)
RINGRAD_METHOD(sqrt, (Where where), where)
RINGRAD_METHOD(sin, (Where where), where)
RINGRAD_METHOD(cos, (Where where), where)
RINGRAD_METHOD(tanh, (Where where), where)
RINGRAD_METHOD(sigmoid, (Where where), where)
RINGRAD_METHOD(relu, (Where where), where)
RINGRAD_METHOD(pow, (const Tensor& exponent, Where where), exponent, where)
RINGRAD_METHOD(pow, (Scalar exponent, Where where), exponent, where)
RINGRAD_METHOD(clamp, (Scalar low, Scalar high, Where where), low, high, where)

RINGRAD_METHOD(sum, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(mean, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(max, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(min, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(any, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(all, (const Shape& axes, bool keepdim, Where where), axes, keepdim, where)
RINGRAD_METHOD(argmax, (std::optional<std::int64_t> axis, bool keepdim, Where where), axis, keepdim,
               where)

RINGRAD_METHOD(matmul, (const Tensor& b, Where where), b, where)
RINGRAD_METHOD(softmax, (std::int64_t axis, Where where), axis, where)
RINGRAD_METHOD(log_softmax, (std::int64_t axis, Where where), axis, where)

RINGRAD_METHOD(reshape, (const Shape& shape, Where where), shape, where)
RINGRAD_METHOD(flatten, (std::int64_t first, std::int64_t last, Where where), first, last, where)
RINGRAD_METHOD(permute, (const Shape& order, Where where), order, where)
RINGRAD_METHOD(transpose, (std::int64_t axis0, std::int64_t axis1, Where where), axis0, axis1,
               where)
RINGRAD_METHOD(squeeze, (const Shape& axes, Where where), axes, where)
RINGRAD_METHOD(unsqueeze, (std::int64_t axis, Where where), axis, where)
RINGRAD_METHOD(clone, (Where where), where)
RINGRAD_METHOD(contiguous, (Where where), where)
RINGRAD_METHOD(to, (DType dtype, Where where), dtype, where)
RINGRAD_METHOD(to, (Device device, Where where), device, where)

RINGRAD_METHOD(add_, (const Tensor& x, Scalar alpha, Where where), x, alpha, where)
RINGRAD_METHOD(add_, (Scalar x, Where where), x, where)
RINGRAD_METHOD(mul_, (const Tensor& x, Where where), x, where)
RINGRAD_METHOD(mul_, (Scalar x, Where where), x, where)
RINGRAD_METHOD(copy_, (const Tensor& x, Where where), x, where)
RINGRAD_METHOD(fill_, (Scalar value, Where where), value, where)
RINGRAD_METHOD(zero_, (Where where), where)

}  // namespace ringrad

#undef RINGRAD_METHOD
