#include "ringrad/parallel/train/tensor/tensor_parallel.h"

#include <typeinfo>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/train/common/same_model.h"
#include "ringrad/parallel/train/tensor/differentiable_collectives.h"

namespace ringrad {

void for_parallel_parameters(nn::Module& model, const VisitPart& visit) {
  model.visit([&](const std::string& path, nn::Module& module) {
    auto* const layer = dynamic_cast<ParallelLinear*>(&module);
    if (!layer) return;
    for (const auto& [name, part] : layer->named_parameters())
      visit(path.empty() ? name : path + '.' + name, *layer, part);
  });
}

// --- Common to both layers ---

ParallelLinear::ParallelLinear(const Kind& kind, std::int64_t in_features,
                               std::int64_t out_features, Communicator& comm, Where where)
    : kind_(kind), comm_(&comm) {
  const Generator& generator = default_generator();
  check_same_text(
      concat(kind.name, ": all ranks must make the layer of rank 0, from the same random numbers"),
      concat(in_features, " to ", out_features, kind.with_bias ? " with bias" : " without bias",
             kind.is_closed ? "" : ", split outside", "\ngenerator of seed ", generator.seed(),
             " at ", generator.offset()),
      comm, where);
  const std::int64_t features = kind.axis == 0 ? out_features : in_features;
  RINGRAD_CHECK(features % comm.world_size() == 0, ValueError, where, kind.name, ": the ",
                kind.axis == 0 ? "output" : "input",
                " features must be a multiple of the ranks; got ", features, " features and ",
                comm.world_size(), " ranks");
  const nn::Linear whole(in_features, out_features, kind.with_bias, where);
  weight = parameter("weight", kernels::clone(part_of(whole.weight, where), where));
  if (kind.with_bias) bias = parameter("bias", kernels::clone(part_of(whole.bias, where), where));
  purpose_ = purpose_of(kind.name, *this, comm, where);
  std::vector<nn::NamedTensor> parts = named_parameters();
  std::erase_if(parts, [this](const nn::NamedTensor& part) { return split_axis(part.second) < 0; });
  if (comm.world_size() > 1)
    split_ = std::make_shared<nn::PartialGradients>(nn::PartOf::slice, kind.name, std::move(parts));
}

std::string ParallelLinear::describe() const {
  const Shape shape = whole_shape(weight);
  return concat(kind_.name, '(', shape[1], ", ", shape[0], bias.defined() ? "" : ", no bias",
                ", part ", comm_->rank(), " of ", comm_->world_size(), ')');
}

Shape ParallelLinear::whole_shape(const Tensor& part) const {
  Shape shape = part.shape();
  if (kind_.axis < shape.size()) shape[kind_.axis] *= comm_->world_size();
  return shape;
}

Tensor ParallelLinear::whole_of(const Tensor& part, Where where) const {
  const NoGradGuard guard;
  return kind_.axis < part.dims() ? gather_from_ranks(part, *comm_, kind_.axis, where) : part;
}

Tensor ParallelLinear::part_of(const Tensor& whole, Where where) const {
  const NoGradGuard guard;
  return kind_.axis < whole.dims() ? scatter_to_ranks(whole, *comm_, kind_.axis, where) : whole;
}

// --- The layers ---

ColumnParallelLinear::ColumnParallelLinear(std::int64_t in_features, std::int64_t out_features,
                                           Communicator& comm, const ColumnParallelOptions& options,
                                           Where where)
    : ParallelLinear({"ColumnParallelLinear", 0, options.bias, options.gather_output}, in_features,
                     out_features, comm, where) {}

Tensor ColumnParallelLinear::apply(const Tensor& x, bool relu, Where where) {
  const PurposeScope scope(purpose());
  const Tensor y = linear(copy_to_ranks(x, comm(), where), weight, bias, relu, where);
  return is_closed() ? gather_from_ranks(y, comm(), -1, where) : y;
}

Tensor ColumnParallelLinear::forward(const Tensor& x, Where at) { return apply(x, false, at); }

Tensor ColumnParallelLinear::forward_relu(const Tensor& x, Where at) {
  if (typeid(*this) != typeid(ColumnParallelLinear)) return Module::forward_relu(x, at);
  return apply(x, true, at);
}

RowParallelLinear::RowParallelLinear(std::int64_t in_features, std::int64_t out_features,
                                     Communicator& comm, const RowParallelOptions& options,
                                     Where where)
    : ParallelLinear({"RowParallelLinear", 1, options.bias, !options.input_is_parallel},
                     in_features, out_features, comm, where) {}

Tensor RowParallelLinear::forward(const Tensor& x, Where at) {
  const PurposeScope scope(purpose());
  const Tensor part = is_closed() ? scatter_to_ranks(x, comm(), -1, at) : x;
  const Tensor y = reduce_from_ranks(linear(part, weight, {}, false, at), comm(), at);
  return bias.defined() ? add(y, ringrad::to(bias, y.dtype(), at), at) : y;
}

// --- State ---

nn::StateDict whole_state_dict(nn::Module& model, Where where) {
  nn::StateDict state = model.state_dict();
  for_parallel_parameters(
      model, [&](const std::string& name, const ParallelLinear& layer, const Tensor& part) {
        state[name] = layer.whole_of(part, where);
      });
  return state;
}

void load_whole_state_dict(nn::Module& model, const nn::StateDict& state, Where where) {
  nn::StateDict parts = state;
  for_parallel_parameters(
      model, [&](const std::string& name, const ParallelLinear& layer, const Tensor& part) {
        const auto given = parts.find(name);
        if (given == parts.end()) return;  // load_state_dict reports missing names
        const Shape shape = layer.whole_shape(part);
        RINGRAD_CHECK(given->second.shape() == shape, ShapeError, where,
                      "load_whole_state_dict: ", name, " must be ", shape, "; got ",
                      given->second.shape());
        given->second = layer.part_of(given->second, where);
      });
  model.load_state_dict(parts, where);
}

}  // namespace ringrad
