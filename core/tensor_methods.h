// TensorMethods: operators as members of a tensor, so that x.sum() is sum(x).
//
// An operator is a function, whose header has its formula, shapes, dtypes and errors; a new one
// needs no line here. Those that programs call most are members as well, with the same further
// arguments. They are declared here, for Tensor to inherit, and defined in
// autograd/methods/tensor_methods.cc; link with //autograd/methods, which is part of //:nn.

#pragma once

#include <cstdint>
#include <optional>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/base/shape.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/scalar.h"

namespace ringrad {

class Tensor;

/// Each member calls the function of its name with the tensor as first argument.
class TensorMethods {
 public:
  // As in autograd/elementwise.h.
  Tensor neg(Where where = Where::current()) const;
  Tensor abs(Where where = Where::current()) const;
  Tensor square(Where where = Where::current()) const;
  Tensor exp(Where where = Where::current()) const;
  Tensor log(Where where = Where::current()) const;
  Tensor sqrt(Where where = Where::current()) const;
  Tensor sin(Where where = Where::current()) const;
  Tensor cos(Where where = Where::current()) const;
  Tensor tanh(Where where = Where::current()) const;
  Tensor sigmoid(Where where = Where::current()) const;
  Tensor relu(Where where = Where::current()) const;
  Tensor pow(const Tensor& exponent, Where where = Where::current()) const;
  Tensor pow(Scalar exponent, Where where = Where::current()) const;
  Tensor clamp(Scalar low, Scalar high, Where where = Where::current()) const;

  // As in autograd/reduce.h.
  Tensor sum(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor mean(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor max(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor min(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor any(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor all(const Shape& axes = {}, bool keepdim = false, Where where = Where::current()) const;
  Tensor argmax(std::optional<std::int64_t> axis = {}, bool keepdim = false,
                Where where = Where::current()) const;

  // As in autograd/matmul/matmul.h and autograd/loss/softmax.h.
  Tensor matmul(const Tensor& b, Where where = Where::current()) const;
  Tensor softmax(std::int64_t axis, Where where = Where::current()) const;
  Tensor log_softmax(std::int64_t axis, Where where = Where::current()) const;

  // As in autograd/movement.h.
  Tensor reshape(const Shape& shape, Where where = Where::current()) const;
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1,
                 Where where = Where::current()) const;
  Tensor permute(const Shape& order, Where where = Where::current()) const;
  Tensor transpose(std::int64_t axis0, std::int64_t axis1, Where where = Where::current()) const;
  Tensor squeeze(const Shape& axes = {}, Where where = Where::current()) const;
  Tensor unsqueeze(std::int64_t axis, Where where = Where::current()) const;
  Tensor clone(Where where = Where::current()) const;
  Tensor contiguous(Where where = Where::current()) const;
  Tensor to(DType dtype, Where where = Where::current()) const;
  Tensor to(Device device, Where where = Where::current()) const;

  // As in autograd/methods/in_place.h: they return this tensor.
  Tensor add_(const Tensor& x, Scalar alpha = 1, Where where = Where::current()) const;
  Tensor add_(Scalar x, Where where = Where::current()) const;
  Tensor mul_(const Tensor& x, Where where = Where::current()) const;
  Tensor mul_(Scalar x, Where where = Where::current()) const;
  Tensor copy_(const Tensor& x, Where where = Where::current()) const;
  Tensor fill_(Scalar value, Where where = Where::current()) const;
  Tensor zero_(Where where = Where::current()) const;
};

}  // namespace ringrad
