#include "ringrad/kernels/norm/batch_norm.h"

#include <cmath>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/dense.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/norm/channel_norm.h"
#include "ringrad/kernels/norm/norm_cpu.h"
#include "ringrad/kernels/norm/norm_operands.h"
#include "ringrad/kernels/overlap.h"

namespace ringrad::kernels {
namespace {

using channel_norm::check_input;
using channel_norm::check_vector;
using norm_operands::data_or_null;
using norm_operands::statistics_dtype;

void check_like_input(const char* operation, const char* what, const Tensor& tensor,
                      const Tensor& x, Where where) {
  RINGRAD_CHECK(tensor.shape() == x.shape(), ShapeError, where, operation, ": the ", what,
                " must have the shape of x ", x.shape(), "; got ", tensor.shape());
  check_same_dtype(operation, x, tensor, where);
  check_same_device(operation, x, tensor, where);
}

/// The order of axes that puts the channels last, and the order that restores them.
Shape channels_to_end(int dims) {
  Shape order{0};
  for (int axis = 2; axis < dims; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}
Shape channels_to_front(int dims) {
  Shape order{0, dims - 1};
  for (int axis = 1; axis < dims - 1; ++axis) order.push_back(axis);
  return order;
}

/// x in the statistics' dtype with the channels last, contiguous; x's own memory if it has that
/// form already. Here and below, an undefined tensor stays undefined.
Tensor as_rows(const Tensor& x, Where where) {
  if (!x.defined()) return x;
  const Tensor wide = cast(x, statistics_dtype(x), where);
  return contiguous(view::permute(wide, channels_to_end(x.dims()), where), where);
}

/// `result` in the dtype and memory order of empty_like(like).
Tensor in_order_of_input(const Tensor& result, const Tensor& like, Where where) {
  if (!result.defined()) return result;
  const bool dense = is_dense(like.shape(), like.strides());
  const bool in_order = dense ? same_order(result, like) : result.is_contiguous();
  if (in_order && result.dtype() == like.dtype()) return result;
  const Tensor ordered = empty_like(like, where);
  copy_(ordered, result, where);
  return ordered;
}

/// Rows as a tensor with the shape, dtype and memory order of `like`.
Tensor from_rows(const Tensor& rows, const Tensor& like, Where where) {
  if (!rows.defined()) return rows;
  return in_order_of_input(view::permute(rows, channels_to_front(like.dims()), where), like, where);
}

/// x itself if a GPU can read it in place (contiguous or channels last), else a contiguous copy.
Tensor in_place(const Tensor& x, Where where) {
  const bool last = view::permute(x, channels_to_end(x.dims()), where).is_contiguous();
  return last ? x : contiguous(x, where);
}

cpu::Stripes stripes_of(const Tensor& rows) {
  const std::int64_t channels = rows.shape().back();
  return {rows.numel() / channels, channels};
}

/// The values of a (C) tensor, or C times `otherwise` if it is undefined.
template <class T>
std::vector<T> channel_values(const Tensor& vector, std::int64_t channels, double otherwise) {
  if (!vector.defined()) return std::vector<T>(static_cast<std::size_t>(channels), T(otherwise));
  const Tensor dense = contiguous(cast(vector, dtype_of<T>));
  return {dense.data<T>(), dense.data<T>() + channels};
}

template <class T>
cpu::ChannelMap<T> channel_map(const cpu::Stripes& stripes, const BatchNormSaved& saved) {
  const std::int64_t channels = stripes.channels;
  std::vector<T> scale = channel_values<T>(saved.weight, channels, 1);
  const std::vector<T> rstd = channel_values<T>(saved.rstd, channels, 1);
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= rstd[c];
  return {repeat(stripes, channel_values<T>(saved.mean, channels, 0)), repeat(stripes, scale),
          repeat(stripes, channel_values<T>(saved.bias, channels, 0)), saved.relu};
}

void check_saved(const char* operation, const BatchNormSaved& saved, Where where) {
  check_input(operation, saved.x, where);
  RINGRAD_CHECK(saved.mean.defined() && saved.rstd.defined(), ValueError, where, operation,
                ": mean and rstd must be given; got an undefined tensor");
  check_vector(operation, "mean", saved.mean, saved.x, where);
  check_vector(operation, "rstd", saved.rstd, saved.x, where);
  check_vector(operation, "weight", saved.weight, saved.x, where);
  check_vector(operation, "bias", saved.bias, saved.x, where);
  if (saved.residual.defined())
    check_like_input(operation, "residual", saved.residual, saved.x, where);
}

void check_backward(const char* operation, const Tensor& grad_output, const BatchNormSaved& saved,
                    Where where) {
  check_saved(operation, saved, where);
  check_like_input(operation, "gradient", grad_output, saved.x, where);
}

/// `saved` with x and the residual as a GPU reads them: in place, and in one order.
BatchNormSaved in_place(BatchNormSaved saved, Where where) {
  saved.x = in_place(saved.x, where);
  if (saved.residual.defined()) saved.residual = in_order_of(saved.residual, saved.x, where);
  return saved;
}

/// True if there is a residual that does not affect the gradients, because there is no ReLU.
bool ignores_residual(const BatchNormSaved& saved) {
  return saved.residual.defined() && !saved.relu;
}
BatchNormSaved without_residual(BatchNormSaved saved) {
  saved.residual = {};
  return saved;
}

Tensor channel_tensor(const Tensor& x, Where where) {
  return empty({x.shape()[1]}, {.dtype = statistics_dtype(x), .device = x.device()}, where);
}

}  // namespace

Moments batch_norm_moments(const Tensor& x, Where where) {
  check_input("batch_norm", x, where);
  RINGRAD_CHECK(x.numel() > 0, ShapeError, where,
                "batch_norm: a mean needs at least one value per channel; got shape ", x.shape());
  Moments moments{channel_tensor(x, where), channel_tensor(x, where)};
  if (x.device().is_cuda()) {
    cuda::batch_norm_moments(in_place(x, where), moments, where);
    return moments;
  }
  const Tensor rows = as_rows(x, where);
  dispatch_math(x.dtype(), [&]<class T>() {
    cpu::batch_norm_moments(stripes_of(rows), rows.data<T>(), moments.mean.data<T>(),
                            moments.var.data<T>());
  });
  return moments;
}

Tensor batch_norm_rstd(const Tensor& var, double eps, Where where) {
  check_floating("batch_norm", var, where);
  const Tensor rstd = empty_like(var, where);
  if (var.device().is_cuda()) {
    cuda::batch_norm_rstd(var, eps, rstd, where);
    return rstd;
  }
  dispatch_floating(var.dtype(), [&]<class T>() {
    const auto values = channel_values<T>(var, var.numel(), 0);
    for (std::size_t c = 0; c < values.size(); ++c)
      rstd.data<T>()[c] = T(1 / std::sqrt(values[c] + static_cast<MathType<T>>(eps)));
  });
  return rstd;
}

Tensor batch_norm_var(const Tensor& rstd, double eps, Where where) {
  check_floating("batch_norm", rstd, where);
  const Tensor var = empty_like(rstd, where);
  if (rstd.device().is_cuda()) {
    cuda::batch_norm_var(rstd, eps, var, where);
    return var;
  }
  dispatch_floating(rstd.dtype(), [&]<class T>() {
    const auto values = channel_values<double>(rstd, rstd.numel(), 0);
    for (std::size_t c = 0; c < values.size(); ++c) {
      const double value = 1 / (values[c] * values[c]) - eps;
      var.data<T>()[c] = T(static_cast<MathType<T>>(value < 0 ? 0 : value));  // NaN stays NaN
    }
  });
  return var;
}

Tensor batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& weight, const Tensor& bias, bool relu, const Tensor& residual,
                        Where where) {
  const BatchNormSaved values{x, weight, bias, mean, rstd, relu, residual};
  check_saved("batch_norm", values, where);
  if (x.numel() == 0) return empty_like(x, where);
  if (x.device().is_cuda()) {
    const BatchNormSaved in = in_place(values, where);
    const Tensor y = empty_like(in.x, where);
    cuda::batch_norm_apply(in, y, where);
    return in_order_of_input(y, x, where);
  }
  const Tensor rows = as_rows(x, where), residual_rows = as_rows(residual, where);
  const Tensor y = empty_like(rows, where);
  dispatch_math(x.dtype(), [&]<class T>() {
    const cpu::Stripes stripes = stripes_of(rows);
    cpu::batch_norm_apply(stripes, channel_map<T>(stripes, values), rows.data<T>(),
                          data_or_null<T>(residual_rows), y.data<T>());
  });
  return from_rows(y, x, where);
}

BatchNormSums batch_norm_backward_sums(const Tensor& grad_output, const BatchNormSaved& saved,
                                       Where where) {
  check_backward("batch_norm_backward", grad_output, saved, where);
  if (ignores_residual(saved))
    return batch_norm_backward_sums(grad_output, without_residual(saved), where);
  const Tensor& x = saved.x;
  BatchNormSums sums{channel_tensor(x, where), channel_tensor(x, where)};
  if (x.numel() == 0) {
    zero_(sums.grad, where);
    zero_(sums.grad_xhat, where);
    return sums;
  }
  if (x.device().is_cuda()) {
    const BatchNormSaved values = in_place(saved, where);
    cuda::batch_norm_backward_sums(in_order_of(grad_output, values.x, where), values, sums, where);
    return sums;
  }
  const Tensor rows = as_rows(x, where), residual_rows = as_rows(saved.residual, where),
               grad_rows = as_rows(grad_output, where);
  dispatch_math(x.dtype(), [&]<class T>() {
    const cpu::Stripes stripes = stripes_of(rows);
    T* sum_gx = sums.grad_xhat.data<T>();
    cpu::batch_norm_backward_sums(stripes, channel_map<T>(stripes, saved), rows.data<T>(),
                                  data_or_null<T>(residual_rows), grad_rows.data<T>(),
                                  sums.grad.data<T>(), sum_gx);
    const std::vector<T> rstd = channel_values<T>(saved.rstd, stripes.channels, 1);
    for (std::size_t c = 0; c < rstd.size(); ++c) sum_gx[c] *= rstd[c];
  });
  return sums;
}

BatchNormGradients batch_norm_backward_apply(const Tensor& grad_output, const BatchNormSaved& saved,
                                             const BatchNormSums& sums, double rows, Where where) {
  constexpr const char* kOperation = "batch_norm_backward";
  check_backward(kOperation, grad_output, saved, where);
  check_vector(kOperation, "the sum of the gradient", sums.grad, saved.x, where);
  check_vector(kOperation, "the sum of gradient and xhat", sums.grad_xhat, saved.x, where);
  if (ignores_residual(saved)) {
    const BatchNormSaved values = without_residual(saved);
    return {batch_norm_backward_apply(grad_output, values, sums, rows, where).grad_input,
            grad_output};
  }
  const Tensor& x = saved.x;
  // The gradients that a pass writes, like x or its rows.
  const auto gradients_like = [&](const Tensor& values) -> BatchNormGradients {
    return {empty_like(values, where),
            saved.residual.defined() ? empty_like(values, where) : Tensor()};
  };
  if (x.numel() == 0) return gradients_like(x);
  if (x.device().is_cuda()) {
    const BatchNormSaved values = in_place(saved, where);
    const BatchNormGradients result = gradients_like(values.x);
    cuda::batch_norm_backward_apply(in_order_of(grad_output, values.x, where), values, sums, rows,
                                    result, where);
    return {in_order_of_input(result.grad_input, x, where),
            in_order_of_input(result.grad_residual, x, where)};
  }
  const Tensor x_rows = as_rows(x, where), residual_rows = as_rows(saved.residual, where),
               grad_rows = as_rows(grad_output, where);
  const BatchNormGradients result = gradients_like(x_rows);
  dispatch_math(x.dtype(), [&]<class T>() {
    const cpu::Stripes stripes = stripes_of(x_rows);
    const cpu::ChannelMap<T> map = channel_map<T>(stripes, saved);
    const std::vector<T> rstd = channel_values<T>(saved.rstd, stripes.channels, 1);
    std::vector<T> slope, constant;  // empty if the moments are constants
    if (rows > 0) {
      const T share = static_cast<T>(1 / rows);
      slope = channel_values<T>(sums.grad_xhat, stripes.channels, 0);
      constant = channel_values<T>(sums.grad, stripes.channels, 0);
      for (std::size_t c = 0; c < rstd.size(); ++c) {
        slope[c] *= -map.scale[c] * rstd[c] * share;
        constant[c] *= -map.scale[c] * share;
      }
      slope = repeat(stripes, slope);
      constant = repeat(stripes, constant);
    }
    cpu::batch_norm_backward_apply(
        stripes, map, slope, constant, x_rows.data<T>(), data_or_null<T>(residual_rows),
        grad_rows.data<T>(), result.grad_input.data<T>(), data_or_null<T>(result.grad_residual));
  });
  return {from_rows(result.grad_input, x, where), from_rows(result.grad_residual, x, where)};
}

void batch_norm_update_running(const Moments& moments, double rows, double momentum,
                               const Tensor& running_mean, const Tensor& running_var, Where where) {
  for (const Tensor* const running : {&running_mean, &running_var}) {
    check_floating("batch_norm", *running, where);
    check_same_device("batch_norm", *running, moments.mean, where);
    RINGRAD_CHECK(running->shape() == moments.mean.shape(), ShapeError, where,
                  "batch_norm: running statistics must have one value per channel; got ",
                  running->shape(), " for ", moments.mean.shape());
    running->check_writable("batch_norm", where);
  }
  RINGRAD_CHECK(running_mean.numel() == 0 || !memory_overlaps(running_mean, running_var),
                ValueError, where,
                "batch_norm: running_mean and running_var must not share memory; got ",
                running_mean.shape(), " of both in one place");
  const auto update = [&](const Tensor& running, const Tensor& moment, double correction) {
    if (running.device().is_cuda()) {
      cuda::batch_norm_update_running(moment, correction, momentum, running, where);
      return running.mark_changed(where);
    }
    const auto values = channel_values<double>(moment, moment.numel(), 0);
    dispatch_floating(running.dtype(), [&]<class T>() {
      T* at = running.data<T>();
      for (const double value : values) {
        const auto old = static_cast<double>(static_cast<MathType<T>>(*at));
        *at = T(static_cast<MathType<T>>(old + momentum * (value * correction - old)));
        at += running.strides()[0];
      }
    });
    running.mark_changed(where);
  };
  update(running_mean, moments.mean, 1);
  update(running_var, moments.var, rows > 1 ? rows / (rows - 1) : 1);
}

}  // namespace ringrad::kernels
