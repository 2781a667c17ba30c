#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"

#include <memory>
#include <string>

#include "ringrad/autograd/constant.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/norm/batch_norm.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {
namespace {

using kernels::BatchNormSaved;
using kernels::BatchNormSums;
using kernels::Moments;

/// Over all ranks.
struct GlobalMoments {
  Moments moments;
  double rows;  ///< values per channel
};

// One rank's contribution, as a row of float64: its dtype, the number of values per channel, their
// means and variances.
constexpr std::int64_t kDType = 0, kRows = 1, kMeans = 2;

Tensor row_of(const Tensor& x, Where where) {
  const std::int64_t channels = x.shape()[1];
  const Tensor row =
      zeros({kMeans + 2 * channels}, {.dtype = DType::float64, .device = Device()}, where);
  row.data<double>()[kDType] = static_cast<double>(x.dtype());
  if (x.numel() == 0) return row;
  row.data<double>()[kRows] = static_cast<double>(x.numel() / channels);
  const Moments own = kernels::batch_norm_moments(x, where);
  const auto put = [&](const Tensor& values, std::int64_t first) {
    kernels::copy_(view::slice(row, 0, first, first + channels), to_host(values, where), where);
  };
  put(own.mean, kMeans);
  put(own.var, kMeans + channels);
  return row;
}

void check_same_dtype(const Tensor& rows, const Communicator& comm, Where where) {
  const auto dtype_of = [&](std::int64_t rank) {
    return static_cast<DType>(static_cast<int>(view::select(rows, 0, rank).data<double>()[kDType]));
  };
  for (int rank = 1; rank < comm.world_size(); ++rank)
    RINGRAD_CHECK(dtype_of(rank) == dtype_of(0), CollectiveError, where,
                  "synchronised batch norm: x must have one dtype on all ranks; got ", dtype_of(0),
                  " on rank ", comm.rank_names()(0), " and ", dtype_of(rank), " on rank ",
                  comm.rank_names()(rank));
}

// Chan's formula, applied part by part.
GlobalMoments merge(const Tensor& rows, std::int64_t channels) {
  const Options numbers{.dtype = DType::float64, .device = Device()};
  const Tensor mean = zeros({channels}, numbers), var = zeros({channels}, numbers);
  double total = 0;
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    const double* const part = view::select(rows, 0, rank).data<double>();
    const double *const means = part + kMeans, *const vars = means + channels;
    const double count = part[kRows], before = total;
    if (count == 0) continue;
    total += count;
    for (std::int64_t c = 0; c < channels; ++c) {
      double &m = mean.data<double>()[c], &v = var.data<double>()[c];
      const double d = means[c] - m;
      m += d * count / total;
      v = (v * before + vars[c] * count + d * d * before * count / total) / total;
    }
  }
  return {{mean, var}, total};
}

// Gathers and merges all ranks' moments for one layer.
GlobalMoments global_moments(const Tensor& x, Communicator& comm, Where where) {
  const Tensor own = row_of(x, where);
  const Tensor rows =
      empty({comm.world_size(), own.numel()}, {.dtype = DType::float64, .device = Device()}, where);
  comm.all_gather(rows, own, where);
  check_same_dtype(rows, comm, where);
  GlobalMoments result = merge(rows, x.shape()[1]);
  RINGRAD_CHECK(result.rows > 1, ShapeError, where,
                "synchronised batch norm: training needs more than one value per channel on all "
                "ranks together; got ",
                result.rows, ", and x ", x.shape(), " on rank ", comm.rank_names()(comm.rank()));
  const DType dtype = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
  for (Tensor* const values : {&result.moments.mean, &result.moments.var})
    *values = to_device(kernels::cast(*values, dtype, where), x.device(), where);
  return result;
}

BatchNormSums global_sums(const BatchNormSums& own, Communicator& comm, Where where) {
  const Tensor both =
      empty({2, own.grad.numel()}, {.dtype = own.grad.dtype(), .device = own.grad.device()}, where);
  const BatchNormSums rows{view::select(both, 0, 0), view::select(both, 0, 1)};
  kernels::copy_(rows.grad, own.grad, where);
  kernels::copy_(rows.grad_xhat, own.grad_xhat, where);
  comm.all_reduce(both, ReduceOp::sum, where);
  return rows;
}

// What the backward function keeps.
struct Saved {
  SavedTensor x, weight, bias;
  SavedTensor residual;  // with ReLU only, whose gradient needs the sign of y
  Tensor mean, rstd;     // made here and visible to no other code
  double rows;
  bool relu;

  BatchNormSaved unpacked() const {
    return {x.get(), weight.get(), bias.get(), mean, rstd, relu, residual.get()};
  }
};

void backward(BackwardContext& context, const Saved& saved, Communicator& comm) {
  RINGRAD_CHECK(!grad_enabled(), AutogradError, context.where(),
                "synchronised batch norm: backward must run without create_graph; got one with it");
  const BatchNormSaved values = saved.unpacked();
  const Tensor& grad = context.grad_output();
  const BatchNormSums own = kernels::batch_norm_backward_sums(grad, values, context.where());
  const bool masked = context.needs(3) && saved.relu;
  if (context.needs(0) || masked) {
    const BatchNormSums sums = context.needs(0) ? global_sums(own, comm, context.where()) : own;
    const auto gradients =
        kernels::batch_norm_backward_apply(grad, values, sums, saved.rows, context.where());
    if (context.needs(0)) context.set(0, gradients.grad_input);
    if (masked) context.set(3, gradients.grad_residual);
  }
  // Already known, whether they are needed now or in a second half.
  if (values.weight.defined()) context.set(1, to(own.grad_xhat, values.weight.dtype()));
  if (values.bias.defined()) context.set(2, to(own.grad, values.bias.dtype()));
  if (context.needs(3) && !masked) context.set(3, grad);
}

Tensor sync_batch_norm(const std::shared_ptr<Communicator>& comm, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_var, const BatchNormOptions& options,
                       const Tensor& residual, Where where) {
  // They are written and not read, so calls between a checkpoint's two runs may have changed them.
  const auto check_no_grad = [&](const char* name, const Tensor& running) {
    if (running.defined() && running.requires_grad())
      check_constant("synchronised batch norm", name, running, where);
  };
  check_no_grad("running_mean", running_mean);
  check_no_grad("running_var", running_var);
  const auto [moments, rows] = global_moments(x, *comm, where);
  const Tensor rstd = kernels::batch_norm_rstd(moments.var, options.eps, where);
  const Tensor y =
      kernels::batch_norm_apply(x, moments.mean, rstd, weight, bias, options.relu, residual, where);
  kernels::batch_norm_update_running(moments, rows, options.momentum, running_mean, running_var,
                                     where);
  if (needs_grad(x, weight, bias, residual))
    record(
        "sync_batch_norm", where, y, {&x, &weight, &bias, &residual},
        [comm, purpose = PurposeScope::current(),
         saved = Saved{save(x), save(weight), save(bias), save(options.relu ? residual : Tensor()),
                       moments.mean, rstd, rows, options.relu}](BackwardContext& context) {
          const PurposeScope scope(purpose);
          backward(context, saved, *comm);
        });
  return y;
}

}  // namespace

int synchronize_batch_norm(nn::Module& model, Communicator& comm, Where where) {
  std::shared_ptr<Communicator> group;
  if (comm.world_size() > 1) group = comm.split(0, 0, where);
  int num_layers = 0;
  // Each layer's calls are for itself: layers do not mix.
  model.visit([&](const std::string& path, nn::Module& module) {
    auto* const layer = dynamic_cast<nn::BatchNorm*>(&module);
    if (!layer) return;
    ++num_layers;
    if (!group) return layer->train_with({});
    const std::string scheme = concat("batch norm ", path);
    layer->train_with([group, purpose = purpose_of(scheme.c_str(), model, *group, where)](
                          const auto&... arguments) {
      const PurposeScope scope(purpose);
      return sync_batch_norm(group, arguments...);
    });
  });
  return num_layers;
}

}  // namespace ringrad
