#include "ringrad/kernels/library/batch_norm_cudnn.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace fe = cudnn_frontend;

namespace ringrad::kernels::cudnn {
namespace {

// cuDNN compiles these kernels for each shape, which is slow, so few are tried.
Search search() { return {.candidates = std::min(2, default_candidates())}; }

enum Id : std::int64_t {
  kX = 1,
  kWeight,
  kBias,
  kResidual,
  kY,
  kMean,
  kRstd,
  kMask,
  kGradY,
  kGradX,
  kGradWeight,
  kGradBias,
  kGradResidual,
};

GraphTensor pointwise(Graph& graph, fe::PointwiseMode_t mode, const GraphTensor& a,
                      const GraphTensor& b) {
  return graph.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(mode));
}

void write_vector(const GraphTensor& tensor, Id id, std::int64_t channels) {
  write_image(tensor, id, {1, channels, 1, 1}, DType::float32);
}

// cuDNN packs truth values into bits.
void set_bits(const GraphTensor& tensor) { tensor->set_data_type(fe::DataType_t::BOOLEAN); }

Key key_of(bool backward, const BatchNormKind& kind) {
  // Cannot equal the keys of convolutions, whose first number is small.
  Key key = {100 + backward, static_cast<std::int64_t>(kind.dtype), kind.relu, kind.residual,
             std::bit_cast<std::int64_t>(kind.eps)};
  key.insert(key.end(), kind.extents.begin(), kind.extents.end());
  return key;
}

// Undefined tensors are left out.
Operands operands_of(std::initializer_list<std::pair<Id, const Tensor&>> tensors) {
  Operands operands;
  for (const auto& [id, tensor] : tensors)
    if (tensor.defined()) operands.emplace(id, tensor.raw_data());
  return operands;
}

BatchNormKind kind_of(const BatchNormProblem& p) {
  const Shape& shape = p.x.shape();
  return {.extents = Extents(shape.begin(), shape.end()),
          .dtype = p.x.dtype(),
          .relu = p.mask.defined()};
}

}  // namespace

Graph batch_norm_graph(const BatchNormKind& kind) {
  Graph graph = make_graph(kind.dtype);
  const std::int64_t C = kind.extents[1];
  const GraphTensor x = add_image(graph, kX, kind.extents, kind.dtype);
  GraphTensor eps = graph.tensor(static_cast<float>(kind.eps));
  const auto options = fe::graph::Batchnorm_attributes().set_epsilon(eps);
  auto [y, mean, rstd, next_mean, next_var] =
      graph.batchnorm(x, add_vector(graph, kWeight, C, DType::float32),
                      add_vector(graph, kBias, C, DType::float32), options);
  write_vector(mean, kMean, C);
  write_vector(rstd, kRstd, C);
  if (kind.residual)
    y = pointwise(graph, fe::PointwiseMode_t::ADD, y,
                  add_image(graph, kResidual, kind.extents, kind.dtype));
  if (kind.relu) {
    y = graph.pointwise(y,
                        fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    const GraphTensor mask = pointwise(graph, fe::PointwiseMode_t::CMP_GT, y, graph.tensor(0.0F));
    write_image(mask, kMask, kind.extents, kind.dtype);
    set_bits(mask);
  }
  write_image(y, kY, kind.extents, kind.dtype);
  return graph;
}

Graph batch_norm_backward_graph(const BatchNormKind& kind) {
  Graph graph = make_graph(kind.dtype);
  const std::int64_t C = kind.extents[1];
  const auto vector = [&](Id id) { return add_vector(graph, id, C, DType::float32); };
  GraphTensor g = add_image(graph, kGradY, kind.extents, kind.dtype);
  if (kind.relu) {
    const GraphTensor mask = add_image(graph, kMask, kind.extents, kind.dtype);
    set_bits(mask);
    g = pointwise(graph, fe::PointwiseMode_t::MUL, g, mask);
    if (kind.residual) write_image(g, kGradResidual, kind.extents, kind.dtype);
  }
  const auto options = fe::graph::Batchnorm_backward_attributes().set_saved_mean_and_inv_variance(
      vector(kMean), vector(kRstd));
  const auto [grad_x, grad_weight, grad_bias] = graph.batchnorm_backward(
      g, add_image(graph, kX, kind.extents, kind.dtype), vector(kWeight), options);
  write_image(grad_x, kGradX, kind.extents, kind.dtype);
  write_vector(grad_weight, kGradWeight, C);
  write_vector(grad_bias, kGradBias, C);
  return graph;
}

bool batch_norm(const BatchNormProblem& p, Where where) {
  BatchNormKind kind = kind_of(p);
  kind.residual = p.residual.defined();
  kind.eps = p.eps;
  return run(
      p.x.device(), kind.dtype, key_of(false, kind), [&] { return batch_norm_graph(kind); },
      search(),
      operands_of({{kX, p.x},
                   {kWeight, p.weight},
                   {kBias, p.bias},
                   {kResidual, p.residual},
                   {kY, p.y},
                   {kMean, p.mean},
                   {kRstd, p.rstd},
                   {kMask, p.mask}}),
      where);
}

bool batch_norm_backward(const BatchNormProblem& p, Where where) {
  BatchNormKind kind = kind_of(p);
  kind.residual = p.grad_residual.defined();
  return run(
      p.x.device(), kind.dtype, key_of(true, kind), [&] { return batch_norm_backward_graph(kind); },
      search(),
      operands_of({{kX, p.x},
                   {kWeight, p.weight},
                   {kMean, p.mean},
                   {kRstd, p.rstd},
                   {kMask, p.mask},
                   {kGradY, p.grad_y},
                   {kGradX, p.grad_x},
                   {kGradWeight, p.grad_weight},
                   {kGradBias, p.grad_bias},
                   {kGradResidual, p.grad_residual}}),
      where);
}

}  // namespace ringrad::kernels::cudnn
