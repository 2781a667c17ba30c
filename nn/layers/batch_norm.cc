#include "ringrad/nn/layers/batch_norm.h"

#include <typeinfo>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/norm/check_norm.h"

namespace ringrad::nn {

BatchNorm::BatchNorm(const char* name, std::int64_t channels, const BatchNormOptions& options,
                     Where where)
    : name_(name), options_(options) {
  RINGRAD_CHECK(channels > 0, ValueError, where, name, ": channels must be positive; got ",
                channels);
  check_eps(name, options.eps, where);
  check_norm_momentum(name, options.momentum, where);
  if (options.affine) {
    weight = parameter("weight", ones({channels}));
    bias = parameter("bias", zeros({channels}));
  }
  running_mean = buffer("running_mean", zeros({channels}));
  running_var = buffer("running_var", ones({channels}));
}

Tensor BatchNorm::normalize(const Tensor& x, bool relu, const Tensor& residual, Where where) {
  check_shape(x.shape(), where);
  const ringrad::BatchNormOptions options{
      .training = is_training(), .momentum = options_.momentum, .eps = options_.eps, .relu = relu};
  if (is_training() && training_function_)
    return training_function_(x, weight, bias, running_mean, running_var, options, residual, where);
  return batch_norm(x, weight, bias, running_mean, running_var, options, residual, where);
}

Tensor BatchNorm::forward(const Tensor& x, Where at) { return normalize(x, false, {}, at); }

// False for derived layers, whose own forward() counts.
bool BatchNorm::is_plain() const {
  return typeid(*this) == typeid(BatchNorm1d) || typeid(*this) == typeid(BatchNorm2d);
}

Tensor BatchNorm::forward_relu(const Tensor& x, Where at) {
  return is_plain() ? normalize(x, true, {}, at) : Module::forward_relu(x, at);
}

Tensor BatchNorm::forward_add_relu(const Tensor& x, const Tensor& residual, Where at) {
  return is_plain() ? normalize(x, true, residual, at)
                    : relu(add(forward(x, at), residual, at), at);
}

std::string BatchNorm::describe() const { return concat(name_, '(', running_mean.numel(), ')'); }

void BatchNorm1d::check_shape(const Shape& shape, Where where) const {
  RINGRAD_CHECK(shape.size() == 2 || shape.size() == 3, ShapeError, where,
                "BatchNorm1d: the input must be (B, C) or (B, C, L); got ", shape);
}

void BatchNorm2d::check_shape(const Shape& shape, Where where) const {
  RINGRAD_CHECK(shape.size() == 4, ShapeError, where,
                "BatchNorm2d: the input must be (B, C, H, W); got ", shape);
}

}  // namespace ringrad::nn
