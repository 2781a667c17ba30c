// The layers of the oneDNN network: each appends its forward call and leaves a function that will
// append its backward calls.

#include <cmath>

#include "ringrad/benchmarks/peers/onednn_net.h"

namespace ringrad::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

constexpr auto kConvolution = algorithm::convolution_direct;

float xavier_like(const memory::dims& weight, float gain) {
  int64_t fan_in = 1;
  for (size_t i = 1; i < weight.size(); ++i) fan_in *= weight[i];
  return std::sqrt(gain / static_cast<float>(fan_in));
}

}  // namespace

Net::Value Net::conv(const Value& x, int64_t outputs, int64_t kernel, int64_t stride, bool bias) {
  using Forward = dnnl::convolution_forward;
  using BackwardWeights = dnnl::convolution_backward_weights;
  using BackwardData = dnnl::convolution_backward_data;
  const memory::dims xd = dims_of(x->data.get_desc());
  const memory::dims strides{stride, stride}, padding{kernel / 2, kernel / 2};
  const memory::desc xa = any_layout(xd);
  const memory::desc wa = any_layout({outputs, xd[1], kernel, kernel});
  const memory::desc ya = any_layout({xd[0], outputs, xd[2] / stride, xd[3] / stride});
  const memory::desc ba = bias ? in_layout({outputs}, memory::format_tag::a) : memory::desc();

  const auto forward = operation<Forward>(prop_kind::forward_training, kConvolution, xa, wa, ba, ya,
                                          strides, padding, padding);
  const Parameter weight = parameter(forward.weights_desc(), xavier_like(dims_of(wa), 2), 0);
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
  forward_.add(Forward(forward), arguments);

  unroll_.push_back([=, this] {
    const auto weights = gradient_of<BackwardWeights>(forward, kConvolution, xa, wa, ba, ya,
                                                      strides, padding, padding);
    const bool same = weights.diff_weights_desc() == weight.grad.get_desc();
    const memory grad_weight = same ? weight.grad : make_memory(weights.diff_weights_desc());
    Arguments arguments{{DNNL_ARG_SRC, backward_.reordered(x->data, weights.src_desc())},
                        {DNNL_ARG_DIFF_DST, backward_.reordered(y->grad, weights.diff_dst_desc())},
                        {DNNL_ARG_DIFF_WEIGHTS, grad_weight}};
    if (bias) arguments[DNNL_ARG_DIFF_BIAS] = grad_bias;
    backward_.add(BackwardWeights(weights), arguments);
    copy_to_gradient(grad_weight, weight);
    if (!x->needs_grad) return;

    const auto data =
        gradient_of<BackwardData>(forward, kConvolution, xa, wa, ya, strides, padding, padding);
    const memory grad_input = make_memory(data.diff_src_desc());
    backward_.add(BackwardData(data),
                  {{DNNL_ARG_DIFF_DST, backward_.reordered(y->grad, data.diff_dst_desc())},
                   {DNNL_ARG_WEIGHTS, backward_.reordered(weight.data, data.weights_desc())},
                   {DNNL_ARG_DIFF_SRC, grad_input}});
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::batch_norm(const Value& x, bool relu) {
  const memory::desc desc = x->data.get_desc();
  const int64_t channels = dims_of(desc)[1];
  const memory::desc per_channel = in_layout({channels}, memory::format_tag::a);
  const auto forward = batch_norm_forward(desc, relu);
  const Value y = node(desc);
  const memory mean = make_memory(per_channel), variance = make_memory(per_channel);
  const memory running_mean = make_memory(per_channel);
  const memory running_variance = make_memory(per_channel, 0, 1);
  const memory workspace(forward.workspace_desc(), cpu_engine());
  const Parameter scale = parameter(per_channel, 0, 1), shift = parameter(per_channel, 0, 0);
  const Arguments forward_arguments{{DNNL_ARG_SRC, x->data},        {DNNL_ARG_DST, y->data},
                                    {DNNL_ARG_MEAN, mean},          {DNNL_ARG_VARIANCE, variance},
                                    {DNNL_ARG_SCALE, scale.data},   {DNNL_ARG_SHIFT, shift.data},
                                    {DNNL_ARG_WORKSPACE, workspace}};
  forward_.add(BatchNorm(forward), forward_arguments);
  forward_.add([=] {
    for (int64_t c = 0; c < channels; ++c) {
      floats(running_mean)[c] += 0.1f * (floats(mean)[c] - floats(running_mean)[c]);
      floats(running_variance)[c] += 0.1f * (floats(variance)[c] - floats(running_variance)[c]);
    }
  });

  unroll_.push_back([=, this] {
    const auto backward = batch_norm_gradient(forward, desc, relu);
    Arguments arguments = batch_norm_kept(forward_arguments);
    const memory grad_input = make_memory(desc);
    arguments[DNNL_ARG_DIFF_DST] = backward_.reordered(y->grad, desc);
    arguments[DNNL_ARG_DIFF_SRC] = grad_input;
    arguments[DNNL_ARG_DIFF_SCALE] = scale.grad;
    arguments[DNNL_ARG_DIFF_SHIFT] = shift.grad;
    backward_.add(BatchNormGradient(backward), arguments);
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::pool(const Value& x, int64_t kernel, algorithm kind) {
  const memory::desc xd = x->data.get_desc();
  memory::dims yd = dims_of(xd);
  yd[2] /= kernel;
  yd[3] /= kernel;
  const memory::dims window{kernel, kernel}, none{0, 0};
  const auto forward = operation<Pooling>(prop_kind::forward_training, kind, xd, any_layout(yd),
                                          window, window, none, none, none);
  const Value y = node(forward.dst_desc());
  Arguments shared;
  if (kind == algorithm::pooling_max) {
    shared[DNNL_ARG_WORKSPACE] = memory(forward.workspace_desc(), cpu_engine());
  }
  Arguments arguments = shared;
  arguments[DNNL_ARG_SRC] = x->data;
  arguments[DNNL_ARG_DST] = y->data;
  forward_.add(Pooling(forward), arguments);

  unroll_.push_back([=, this] {
    const auto backward = gradient_of<PoolingGradient>(forward, kind, xd, forward.dst_desc(),
                                                       window, window, none, none, none);
    Arguments arguments = shared;
    const memory grad_input = make_memory(xd);
    arguments[DNNL_ARG_DIFF_DST] = backward_.reordered(y->grad, forward.dst_desc());
    arguments[DNNL_ARG_DIFF_SRC] = grad_input;
    backward_.add(PoolingGradient(backward), arguments);
    give_gradient(x, grad_input);
  });
  return y;
}

Net::Value Net::flatten(const Value& x) {
  const memory::desc xd = x->data.get_desc();
  const memory::dims d = dims_of(xd);
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
  using Forward = dnnl::inner_product_forward;
  using BackwardWeights = dnnl::inner_product_backward_weights;
  using BackwardData = dnnl::inner_product_backward_data;
  const memory::desc xd = x->data.get_desc();
  const memory::desc wa = any_layout({outputs, dims_of(xd)[1]});
  const memory::desc ya = any_layout({dims_of(xd)[0], outputs});
  const memory::desc ba = in_layout({outputs}, memory::format_tag::a);
  const auto forward =
      operation_with<Forward>(with_relu(relu), prop_kind::forward_training, xd, wa, ba, ya);
  const Value y = node(forward.dst_desc());
  const Parameter weight = parameter(forward.weights_desc(), xavier_like(dims_of(wa), 1), 0);
  const Parameter bias = parameter(ba, 0, 0);
  forward_.add(Forward(forward), {{DNNL_ARG_SRC, x->data},
                                  {DNNL_ARG_WEIGHTS, weight.data},
                                  {DNNL_ARG_BIAS, bias.data},
                                  {DNNL_ARG_DST, y->data}});
  unroll_.push_back([=, this] {
    memory grad_output = y->grad;
    if (relu) {
      grad_output = backward_.reordered(grad_output, y->data.get_desc());
      relu_backward(y->data, grad_output, grad_output);
    }
    const auto plain = operation<Forward>(prop_kind::forward_training, xd, wa, ba, ya);
    const auto weights = gradient_of<BackwardWeights>(plain, xd, wa, ba, ya);
    const bool same = weights.diff_weights_desc() == weight.grad.get_desc();
    const memory grad_weight = same ? weight.grad : make_memory(weights.diff_weights_desc());
    backward_.add(BackwardWeights(weights),
                  {{DNNL_ARG_SRC, x->data},
                   {DNNL_ARG_DIFF_DST, backward_.reordered(grad_output, weights.diff_dst_desc())},
                   {DNNL_ARG_DIFF_WEIGHTS, grad_weight},
                   {DNNL_ARG_DIFF_BIAS, bias.grad}});
    copy_to_gradient(grad_weight, weight);
    if (!x->needs_grad) return;

    const auto data = gradient_of<BackwardData>(plain, xd, wa, ya);
    const memory grad_input = make_memory(data.diff_src_desc());
    backward_.add(BackwardData(data),
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
  const auto add =
      operation_with<dnnl::binary>(with_relu(true), algorithm::binary_add, desc, desc, desc);
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
