// Tensor parallelism: linear layers whose weights are split over ranks, for layers that are too
// large or too slow for one device. Between two of them nothing is communicated:
//
//     nn::Sequential block(ColumnParallelLinear(512, 2048, ranks, {.gather_output = false}),
//                          nn::ReLU(),
//                          RowParallelLinear(2048, 512, ranks, {.input_is_parallel = true}));
//
//     rank 0      .--> relu(x W0^T + b0) V0^T --.           W = [W0]  rows: output features
//     x ----------|                             +--> + c -->    [W1]
//     rank 1      '--> relu(x W1^T + b1) V1^T --'           V = [V0 | V1]  columns: input features
//            copy_to_ranks           reduce_from_ranks      (differentiable_collectives.h)
//
// Each rank owns 1/n of both weights, with their gradients and optimizer state, its part of b, and
// all of c. A forward pass makes one all_reduce of y, a backward pass one of the gradient of x.
//
// Guarantee: from equal x on all ranks, n ranks compute what nn::Linear computes on one, up to the
// rounding of another order of summation. Initial values are those of an nn::Linear made in the
// same place: every rank draws the whole weight and keeps its part. Whole results and c's gradient
// have the same bits on all ranks, so c stays whole without communication, as do all parameters of
// unsplit layers in between.
//
// README.md says more: "Tensor parallel layers on a mesh".
//
// Paper: Shoeybi et al. 2019, "Megatron-LM: Training Multi-Billion Parameter Language Models Using
//        Model Parallelism", arXiv:1909.08053, section 3

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/nn/state_dict.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// An nn::Linear that is divided among the ranks: the common base of the two layers below.
///
/// Parameters:  weight, bias, named as nn::Linear's
/// Shapes:      as nn::Linear, where x and y are whole; a split tensor has 1/n of its features
/// Throws:      when made, on all ranks: ValueError unless the split features are a multiple of the
///              ranks, and counts are positive; CollectiveError unless all ranks make the same
///              layer, with default generators in the same state. In forward: ShapeError,
///              DTypeError, DeviceError on the rank where x is wrong, CollectiveError on the others
/// REQUIRES:    all ranks of the communicator make it, and it lives as long as the layer and its
///              recorded results
class ParallelLinear : public nn::Module {
 public:
  std::string describe() const override;

  /// whole_of: a parameter assembled from all ranks' parts; all ranks must call it. part_of: this
  /// rank's part of a whole parameter, a view.
  Tensor whole_of(const Tensor& part, Where where = Where::current()) const;
  Tensor part_of(const Tensor& whole, Where where = Where::current()) const;
  Shape whole_shape(const Tensor& part) const;
  /// split_axis: the axis that is cut, -1 if all ranks have this parameter whole. part_index: the
  /// index of this rank's part.
  int split_axis(const Tensor& part) const { return kind_.axis < part.dims() ? kind_.axis : -1; }
  int part_index() const { return comm_->rank(); }

  Tensor weight;  ///< this rank's part
  Tensor bias;    ///< undefined without bias

 protected:
  struct Kind {
    const char* name;
    int axis;  ///< axis along which parameters that have it are split
    bool with_bias;
    bool is_closed;  ///< x and y are whole
  };
  ParallelLinear(const Kind& kind, std::int64_t in_features, std::int64_t out_features,
                 Communicator& comm, Where where);

  Communicator& comm() const { return *comm_; }
  /// The purpose of the layer's calls (comm/common/call_purpose.h), which keeps calls of different
  /// layers apart.
  std::uint16_t purpose() const { return purpose_; }
  bool is_closed() const { return kind_.is_closed; }

 private:
  Kind kind_;
  Communicator* comm_;
  std::uint16_t purpose_ = 0;
  std::shared_ptr<nn::PartialGradients> split_;  // marks the parameters that are split
};

struct ColumnParallelOptions {
  bool bias = true;
  bool gather_output = true;  ///< else y is this rank's slice of the output features
};

/// Rank r has the output features [r out / n, (r + 1) out / n): rows of weight, and elements of
/// bias.
///
///   y_r = x W_r^T + b_r,    y = [y_0 | y_1 | ...] if gathered
class ColumnParallelLinear : public ParallelLinear {
 public:
  ColumnParallelLinear(std::int64_t in_features, std::int64_t out_features, Communicator& comm,
                       const ColumnParallelOptions& options = {}, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  /// As in nn::Linear: each rank rectifies its own slice.
  Tensor forward_relu(const Tensor& x, Where at = Where::current()) override;

 private:
  Tensor apply(const Tensor& x, bool relu, Where where);
};

struct RowParallelOptions {
  bool bias = true;
  bool input_is_parallel = false;  ///< x is this rank's slice of the input features
};

/// Rank r has the input features [r in / n, (r + 1) in / n): columns of weight. The bias is whole
/// on all ranks, and is added once, to the sum.
///
///   y = sum over r of x_r W_r^T, + b
///
/// Shapes:  x (..., in), or (..., in / n)  ->  (..., out)
class RowParallelLinear : public ParallelLinear {
 public:
  RowParallelLinear(std::int64_t in_features, std::int64_t out_features, Communicator& comm,
                    const RowParallelOptions& options = {}, Where where = Where::current());

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Visits this rank's part of each parameter of all parallel layers; `name` is the parameter's name
/// in the model.
using VisitPart =
    std::function<void(const std::string& name, const ParallelLinear& layer, const Tensor& part)>;
void for_parallel_parameters(nn::Module& model, const VisitPart& visit);

/// The state of the model with the parts of its parallel layers assembled, under the names that it
/// would have with nn::Linear layers in their places. Other tensors are the module's own. All ranks
/// of those layers must call it.
nn::StateDict whole_state_dict(nn::Module& model, Where where = Where::current());

/// Copies into the model a result of whole_state_dict, or the state dict of the same model with
/// nn::Linear layers in place of the parallel ones. A parallel layer takes this rank's parts. Calls
/// no other rank.
///
/// Throws: as Module::load_state_dict, before anything has changed
void load_whole_state_dict(nn::Module& model, const nn::StateDict& state,
                           Where where = Where::current());

}  // namespace ringrad
