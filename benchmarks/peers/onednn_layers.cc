// The layers of the oneDNN network: each appends its forward call and leaves a function that will
// append its backward calls.

#include <cmath>

#include "ringrad/benchmarks/peers/onednn_net.h"

namespace ringrad::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Flags = dnnl::normalization_flags;

constexpr auto kConvolution = algorithm::convolution_direct;
constexpr float kEpsilon = 1e-5f;

// ReLU as an epilogue of another primitive, or nothing.
dnnl::primitive_attr with_relu(bool relu) {
  dnnl::primitive_attr attributes;
  if (relu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(ops);
  }
  return attributes;
}

float xavier_like(const memory::dims& weight, float gain) {
  int64_t fan_in = 1;
  for (size_t i = 1; i < weight.size(); ++i) fan_in *= weight[i];
  return std::sqrt(gain / static_cast<float>(fan_in));
}

}  // namespace

Net::Value Net::conv(const Value& x, int64_t outputs, int64_t kernel, int64_t stride, bool bias) {
  using Backward = dnnl::convolution_backward_weights;
  const memory::dims xd = x->data.get_desc().dims();
  const memory::dims strides{stride, stride}, padding{kernel / 2, kernel / 2};
  const memory::desc xa = any_layout(xd);
  const memory::desc wa = any_layout({outputs, xd[1], kernel, kernel});
  const memory::desc ya = any_layout({xd[0], outputs, xd[2] / stride, xd[3] / stride});
  const memory::desc ba = bias ? in_layout({outputs}, memory::format_tag::a) : memory::desc();

  const dnnl::convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, kConvolution, xa, wa, ba, ya, strides, padding, padding},
      cpu_engine());
  const Parameter weight = parameter(forward.weights_desc(), xavier_like(wa.dims(), 2), 0);
  const Value y = node(forward.dst_desc());
  Arguments arguments{{DNNL_ARG_SRC, forward_.reordered(x->data, forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, weight.data},
                      {DNNL_ARG_DST, y->data}};
  memory grad_bias;
  if (bias) {
    const Parameter b = parameter(ba, 0, 0);
    grad_bias = b.grad;
    arguments[DNNL_ARG_BIAS] = b.data;
  }
  forward_.add(dnnl::convolution_forward(forward), arguments);

  unroll_.push_back([=, this] {
    const Backward::primitive_desc weights(
        {kConvolution, xa, wa, ba, ya, strides, padding, padding}, cpu_engine(), forward);
    const bool same = weights.diff_weights_desc() == weight.grad.get_desc();
    const memory grad_weight = same ? weight.grad : make_memory(weights.diff_weights_desc());
    Arguments arguments{{DNNL_ARG_SRC, backward_.reordered(x->data, weights.src_desc())},
                        {DNNL_ARG_DIFF_DST, backward_.reordered(y->grad, weights.diff_dst_desc())},
                        {DNNL_ARG_DIFF_WEIGHTS, grad_weight}};
    if (bias) arguments[DNNL_ARG_DIFF_BIAS] = grad_bias;
    backward_.add(Backward(weights), arguments);
    copy_to_gradient(grad_weight, weight);
    if (!x->needs_grad) return;

    const dnnl::convolution_backward_data::primitive_desc data(
        {kConvolution, xa, wa, ya, strides, padding, padding}, cpu_engine(), forward);
    const memory grad_input = make_memory(data.diff_src_desc());
    backward_.add(dnnl::convolution_backward_data(data),
                  {{DNNL_ARG_DIFF_DST, backward_.reordered(y->grad, data.diff_dst_desc())},
                   {DNNL_ARG_WEIGHTS, backward_.reordered(weight.data, data.weights_desc())},
                   {DNNL_ARG_DIFF_SRC, grad_input}});
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::batch_norm(const Value& x, bool relu) {
  const memory::desc desc = x->data.get_desc();
  const int64_t channels = desc.dims()[1];
  const memory::desc per_channel = in_layout({channels}, memory::format_tag::a);
  Flags flags = Flags::use_scale | Flags::use_shift;
  if (relu) flags = flags | Flags::fuse_norm_relu;

  const dnnl::batch_normalization_forward::primitive_desc forward(
      {prop_kind::forward_training, desc, kEpsilon, flags}, cpu_engine());
  const Value y = node(desc);
  const memory mean = make_memory(per_channel), variance = make_memory(per_channel);
  const memory running_mean = make_memory(per_channel);
  const memory running_variance = make_memory(per_channel, 0, 1);
  const memory workspace(forward.workspace_desc(), cpu_engine());
  const Parameter scale = parameter(per_channel, 0, 1), shift = parameter(per_channel, 0, 0);
  const Arguments shared{{DNNL_ARG_SRC, x->data},       {DNNL_ARG_MEAN, mean},
                         {DNNL_ARG_VARIANCE, variance}, {DNNL_ARG_SCALE, scale.data},
                         {DNNL_ARG_SHIFT, shift.data},  {DNNL_ARG_WORKSPACE, workspace}};
  Arguments arguments = shared;
  arguments[DNNL_ARG_DST] = y->data;
  forward_.add(dnnl::batch_normalization_forward(forward), arguments);
  forward_.add([=] {
    for (int64_t c = 0; c < channels; ++c) {
      floats(running_mean)[c] += 0.1f * (floats(mean)[c] - floats(running_mean)[c]);
      floats(running_variance)[c] += 0.1f * (floats(variance)[c] - floats(running_variance)[c]);
    }
  });

  unroll_.push_back([=, this] {
    const dnnl::batch_normalization_backward::primitive_desc backward(
        {prop_kind::backward, desc, desc, kEpsilon, flags}, cpu_engine(), forward);
    Arguments arguments = shared;
    const memory grad_input = make_memory(desc);
    arguments[DNNL_ARG_DIFF_DST] = backward_.reordered(y->grad, desc);
    arguments[DNNL_ARG_DIFF_SRC] = grad_input;
    arguments[DNNL_ARG_DIFF_SCALE] = scale.grad;
    arguments[DNNL_ARG_DIFF_SHIFT] = shift.grad;
    backward_.add(dnnl::batch_normalization_backward(backward), arguments);
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::pool(const Value& x, int64_t kernel, algorithm kind) {
  const memory::desc xd = x->data.get_desc();
  memory::dims yd = xd.dims();
  yd[2] /= kernel;
  yd[3] /= kernel;
  const memory::dims window{kernel, kernel}, none{0, 0};
  const dnnl::pooling_forward::primitive_desc forward(
      {prop_kind::forward_training, kind, xd, any_layout(yd), window, window, none, none},
      cpu_engine());
  const Value y = node(forward.dst_desc());
  Arguments shared;
  if (kind == algorithm::pooling_max) {
    shared[DNNL_ARG_WORKSPACE] = memory(forward.workspace_desc(), cpu_engine());
  }
  Arguments arguments = shared;
  arguments[DNNL_ARG_SRC] = x->data;
  arguments[DNNL_ARG_DST] = y->data;
  forward_.add(dnnl::pooling_forward(forward), arguments);

  unroll_.push_back([=, this] {
    const dnnl::pooling_backward::primitive_desc backward(
        {kind, xd, forward.dst_desc(), window, window, none, none}, cpu_engine(), forward);
    Arguments arguments = shared;
    const memory grad_input = make_memory(xd);
    arguments[DNNL_ARG_DIFF_DST] = backward_.reordered(y->grad, forward.dst_desc());
    arguments[DNNL_ARG_DIFF_SRC] = grad_input;
    backward_.add(dnnl::pooling_backward(backward), arguments);
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::flatten(const Value& x) {
  const memory::desc xd = x->data.get_desc();
  const memory::dims d = xd.dims();
  const memory::desc image = in_layout(d, memory::format_tag::nchw);
  const memory::desc row = in_layout({d[0], d[1] * d[2] * d[3]}, memory::format_tag::ab);
  const memory plain = forward_.reordered(x->data, image);
  const Value y =
      std::make_shared<Node>(Node{memory(row, cpu_engine(), floats(plain)), memory(), true});
  unroll_.push_back([=, this] {
    (void)plain;  // owns the bytes that y->data looks at
    const memory grad = backward_.reordered(y->grad, row);
    y->grad = grad;
    give_gradient(x, backward_.reordered(memory(image, cpu_engine(), floats(grad)), xd));
  });
  return y;
}

Net::Value Net::linear(const Value& x, int64_t outputs, bool relu) {
  using Backward = dnnl::inner_product_backward_weights;
  const memory::desc xd = x->data.get_desc();
  const memory::desc wa = any_layout({outputs, xd.dims()[1]});
  const memory::desc ya = any_layout({xd.dims()[0], outputs});
  const memory::desc ba = in_layout({outputs}, memory::format_tag::a);
  const dnnl::inner_product_forward::primitive_desc forward(
      {prop_kind::forward_training, xd, wa, ba, ya}, with_relu(relu), cpu_engine());
  const Value y = node(forward.dst_desc());
  const Parameter weight = parameter(forward.weights_desc(), xavier_like(wa.dims(), 1), 0);
  const Parameter bias = parameter(ba, 0, 0);
  forward_.add(dnnl::inner_product_forward(forward), {{DNNL_ARG_SRC, x->data},
                                                      {DNNL_ARG_WEIGHTS, weight.data},
                                                      {DNNL_ARG_BIAS, bias.data},
                                                      {DNNL_ARG_DST, y->data}});
  unroll_.push_back([=, this] {
    memory grad_output = y->grad;
    if (relu) {
      grad_output = backward_.reordered(grad_output, y->data.get_desc());
      relu_backward(y->data, grad_output, grad_output);
    }
    const dnnl::inner_product_forward::primitive_desc plain(
        {prop_kind::forward_training, xd, wa, ba, ya}, cpu_engine());
    const Backward::primitive_desc weights({xd, wa, ba, ya}, cpu_engine(), plain);
    const bool same = weights.diff_weights_desc() == weight.grad.get_desc();
    const memory grad_weight = same ? weight.grad : make_memory(weights.diff_weights_desc());
    backward_.add(Backward(weights),
                  {{DNNL_ARG_SRC, x->data},
                   {DNNL_ARG_DIFF_DST, backward_.reordered(grad_output, weights.diff_dst_desc())},
                   {DNNL_ARG_DIFF_WEIGHTS, grad_weight},
                   {DNNL_ARG_DIFF_BIAS, bias.grad}});
    copy_to_gradient(grad_weight, weight);
    if (!x->needs_grad) return;

    const dnnl::inner_product_backward_data::primitive_desc data({xd, wa, ya}, cpu_engine(), plain);
    const memory grad_input = make_memory(data.diff_src_desc());
    backward_.add(dnnl::inner_product_backward_data(data),
                  {{DNNL_ARG_DIFF_DST, backward_.reordered(grad_output, data.diff_dst_desc())},
                   {DNNL_ARG_WEIGHTS, backward_.reordered(weight.data, data.weights_desc())},
                   {DNNL_ARG_DIFF_SRC, grad_input}});
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::add_relu(const Value& x, const Value& other) {
  const memory::desc desc = x->data.get_desc();
  const Value y = node(desc);
  const dnnl::binary::primitive_desc add({algorithm::binary_add, desc, desc, desc}, with_relu(true),
                                         cpu_engine());
  forward_.add(dnnl::binary(add), {{DNNL_ARG_SRC_0, x->data},
                                   {DNNL_ARG_SRC_1, forward_.reordered(other->data, desc)},
                                   {DNNL_ARG_DST, y->data}});
  unroll_.push_back([=, this] {
    const memory grad = make_memory(desc), copy = make_memory(desc);
    relu_backward(y->data, backward_.reordered(y->grad, desc), grad);
    // Both branches get the same gradient, the second a copy: give_gradient may add in place.
    backward_.add(dnnl::reorder(grad, copy), {{DNNL_ARG_FROM, grad}, {DNNL_ARG_TO, copy}});
    give_gradient(x, grad);
    give_gradient(other, copy);
  });
  return y;
}

}  // namespace ringrad::bench
