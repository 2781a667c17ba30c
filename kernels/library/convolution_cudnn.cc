#include "ringrad/kernels/library/convolution_cudnn.h"

#include <array>
#include <functional>
#include <utility>

#include "ringrad/kernels/copy/copy.h"

namespace fe = cudnn_frontend;

namespace ringrad::kernels::cudnn {
namespace {

using Geometry = ConvolutionGeometry;
using Ids = ConvolutionIds;

enum class ConvolutionPass : std::int64_t {
  forward,
  forward_with_bias,
  backward_input,
  backward_weight
};

// What comes first, and then the axes of a volume; an image has no depth.
Extents extents(const Geometry& g, Extents first, const std::array<std::int64_t, 3>& axes) {
  first.insert(first.end(), axes.begin() + g.is_flat(), axes.end());
  return first;
}

Extents image(const Geometry& g) { return extents(g, {g.B, g.C}, {g.D, g.H, g.W}); }
Extents filter(const Geometry& g) { return extents(g, {g.K, g.group_inputs()}, {g.U, g.R, g.S}); }
Extents result(const Geometry& g) { return extents(g, {g.B, g.K}, {g.Z, g.P, g.Q}); }

template <class Attributes>
Attributes window(const Geometry& g) {
  Attributes attributes;
  attributes.set_padding(extents(g, {}, g.options.padding))
      .set_stride(extents(g, {}, g.options.stride))
      .set_dilation(extents(g, {}, g.options.dilation));
  return attributes;
}

Key key_of(ConvolutionPass pass, const Geometry& g, DType dtype, bool tf32) {
  const ConvolutionOptions& o = g.options;
  Key key{static_cast<std::int64_t>(pass),
          static_cast<std::int64_t>(dtype),
          tf32,
          g.B,
          g.C,
          g.D,
          g.H,
          g.W,
          g.K,
          g.U,
          g.R,
          g.S,
          o.groups};
  for (const auto& numbers : {o.stride, o.padding, o.dilation})
    key.insert(key.end(), numbers.begin(), numbers.end());
  return key;
}

bool run_pass(ConvolutionPass pass, const Geometry& g, const Tensor& like, bool tf32,
              const std::function<Graph()>& make, Operands operands, Where where) {
  const DType dtype = like.dtype();
  tf32 = tf32 && dtype == DType::float32;
  return run(like.device(), dtype, key_of(pass, g, dtype, tf32), make, {.tf32 = tf32},
             std::move(operands), where);
}

Tensor channels_last(const Tensor& weight, Where where) {
  return to_layout(weight, Layout::channels_last, where);
}

}  // namespace

Graph convolution_graph(const Geometry& g, DType dtype, bool has_bias) {
  Graph graph = make_graph(dtype);
  const GraphTensor x = add_image(graph, Ids::x, image(g), dtype);
  const GraphTensor weight = add_image(graph, Ids::weight, filter(g), dtype);
  GraphTensor y = graph.conv_fprop(x, weight, window<fe::graph::Conv_fprop_attributes>(g));
  if (has_bias) {
    const GraphTensor bias = add_vector(graph, Ids::bias, g.K, dtype, image(g).size());
    y = graph.pointwise(y, bias,
                        fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  write_image(y, Ids::y, result(g), dtype);
  return graph;
}

Graph backward_input_graph(const Geometry& g, DType dtype) {
  Graph graph = make_graph(dtype);
  const GraphTensor grad_y = add_image(graph, Ids::y, result(g), dtype);
  const GraphTensor weight = add_image(graph, Ids::weight, filter(g), dtype);
  const GraphTensor grad_x =
      graph.conv_dgrad(grad_y, weight, window<fe::graph::Conv_dgrad_attributes>(g));
  write_image(grad_x, Ids::x, image(g), dtype);
  return graph;
}

Graph backward_weight_graph(const Geometry& g, DType dtype) {
  Graph graph = make_graph(dtype);
  const GraphTensor grad_y = add_image(graph, Ids::y, result(g), dtype);
  const GraphTensor x = add_image(graph, Ids::x, image(g), dtype);
  const GraphTensor grad_weight =
      graph.conv_wgrad(grad_y, x, window<fe::graph::Conv_wgrad_attributes>(g));
  write_image(grad_weight, Ids::weight, filter(g), dtype);
  return graph;
}

bool convolution(const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& y, bool tf32, Where where) {
  const bool has_bias = bias.defined();
  const Tensor filters = channels_last(weight, where);
  Operands operands{
      {Ids::x, x.raw_data()}, {Ids::weight, filters.raw_data()}, {Ids::y, y.raw_data()}};
  if (has_bias) operands.emplace(Ids::bias, bias.raw_data());
  return run_pass(
      has_bias ? ConvolutionPass::forward_with_bias : ConvolutionPass::forward, g, x, tf32,
      [&] { return convolution_graph(g, x.dtype(), has_bias); }, std::move(operands), where);
}

bool convolution_backward_input(const Geometry& g, const Tensor& grad_y, const Tensor& weight,
                                const Tensor& grad_x, bool tf32, Where where) {
  const Tensor filters = channels_last(weight, where);
  return run_pass(
      ConvolutionPass::backward_input, g, grad_y, tf32,
      [&] { return backward_input_graph(g, grad_y.dtype()); },
      {{Ids::y, grad_y.raw_data()}, {Ids::weight, filters.raw_data()}, {Ids::x, grad_x.raw_data()}},
      where);
}

bool convolution_backward_weight(const Geometry& g, const Tensor& x, const Tensor& grad_y,
                                 const Tensor& grad_weight, bool tf32, Where where) {
  const Tensor gradient =
      empty(grad_weight.shape(),
            {.dtype = x.dtype(), .device = x.device(), .layout = Layout::channels_last}, where);
  const bool done = run_pass(
      ConvolutionPass::backward_weight, g, x, tf32,
      [&] { return backward_weight_graph(g, x.dtype()); },
      {{Ids::y, grad_y.raw_data()}, {Ids::x, x.raw_data()}, {Ids::weight, gradient.raw_data()}},
      where);
  if (done) copy_(grad_weight, gradient, where);
  return done;
}

}  // namespace ringrad::kernels::cudnn
