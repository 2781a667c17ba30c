#include "ringrad/nn/layers/group_norm.h"

#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/group_norm.h"

namespace ringrad::nn {

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double eps, bool affine,
                     Where where)
    : groups_(groups), channels_(channels), eps_(eps) {
  RINGRAD_CHECK(groups > 0 && channels > 0 && channels % groups == 0, ValueError, where,
                "GroupNorm: the number of groups must divide the channels; got ", groups, " and ",
                channels);
  check_eps("GroupNorm", eps, where);
  if (!affine) return;
  weight = parameter("weight", ones({channels}));
  bias = parameter("bias", zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x, Where at) {
  RINGRAD_CHECK(x.dims() >= 2 && x.shape()[1] == channels_, ShapeError, at,
                "GroupNorm: the input must be (B, ", channels_, ", ...); got ", x.shape());
  return group_norm(x, groups_, weight, bias, eps_, at);
}

std::string GroupNorm::describe() const {
  return concat("GroupNorm(", groups_, ", ", channels_, ')');
}

InstanceNorm2d::InstanceNorm2d(std::int64_t channels, double eps, bool affine, Where where)
    : channels_(channels), eps_(eps) {
  RINGRAD_CHECK(channels > 0, ValueError, where, "InstanceNorm2d: channels must be positive; got ",
                channels);
  check_eps("InstanceNorm2d", eps, where);
  if (!affine) return;
  weight = parameter("weight", ones({channels}));
  bias = parameter("bias", zeros({channels}));
}

Tensor InstanceNorm2d::forward(const Tensor& x, Where at) {
  RINGRAD_CHECK(x.dims() == 4 && x.shape()[1] == channels_, ShapeError, at,
                "InstanceNorm2d: the input must be (B, ", channels_, ", H, W); got ", x.shape());
  return instance_norm(x, weight, bias, eps_, at);
}

std::string InstanceNorm2d::describe() const { return concat("InstanceNorm2d(", channels_, ')'); }

}  // namespace ringrad::nn
