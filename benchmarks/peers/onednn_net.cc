#include "ringrad/benchmarks/peers/onednn_net.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace ringrad::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

constexpr float kLearningRate = 0.005f;
constexpr float kMomentum = 0.9f;
constexpr float kEpsilon = 1e-5f;

dnnl::stream& cpu_stream() {
  static dnnl::stream stream(cpu_engine());
  return stream;
}

std::mt19937& generator() {
  static std::mt19937 engine(0);
  return engine;
}

int64_t count(const memory& m) { return static_cast<int64_t>(m.get_desc().get_size() / 4); }

dnnl::normalization_flags batch_norm_flags(bool relu) {
  using Flags = dnnl::normalization_flags;
  const Flags affine = Flags::use_scale | Flags::use_shift;
  return relu ? affine | Flags::fuse_norm_relu : affine;
}

}  // namespace

float* floats(const memory& m) { return static_cast<float*>(m.get_data_handle()); }

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory make_memory(const memory::desc& desc, float scale, float shift) {
  memory m(desc, cpu_engine());
  // A repeated pool of noise is good enough, and much faster to make than a fresh draw per element.
  std::normal_distribution<float> normal;
  std::vector<float> noise(scale == 0 ? 1 : 65537);
  for (float& x : noise) x = scale == 0 ? shift : shift + scale * normal(generator());
  for (int64_t i = 0; i < count(m); ++i) {
    floats(m)[i] = noise[static_cast<size_t>(i) % noise.size()];
  }
  return m;
}

memory::desc any_layout(const memory::dims& dims) {
  return in_layout(dims, memory::format_tag::any);
}

memory::desc in_layout(const memory::dims& dims, memory::format_tag tag) {
  return {dims, memory::data_type::f32, tag};
}

memory::dims dims_of(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR < 3
  return desc.dims();
#else
  return desc.get_dims();
#endif
}

BatchNorm::primitive_desc batch_norm_forward(const memory::desc& layout, bool relu) {
#if DNNL_VERSION_MAJOR < 3
  return operation<BatchNorm>(prop_kind::forward_training, layout, kEpsilon,
                              batch_norm_flags(relu));
#else
  return operation<BatchNorm>(prop_kind::forward_training, layout, layout, kEpsilon,
                              batch_norm_flags(relu));
#endif
}

BatchNormGradient::primitive_desc batch_norm_gradient(const BatchNorm::primitive_desc& forward,
                                                      const memory::desc& layout, bool relu) {
#if DNNL_VERSION_MAJOR < 3
  return gradient_of<BatchNormGradient>(forward, prop_kind::backward, layout, layout, kEpsilon,
                                        batch_norm_flags(relu));
#else
  return gradient_of<BatchNormGradient>(forward, prop_kind::backward, layout, layout, layout,
                                        kEpsilon, batch_norm_flags(relu));
#endif
}

Arguments batch_norm_kept(Arguments forward) {
  forward.erase(DNNL_ARG_DST);
#if DNNL_VERSION_MAJOR >= 3  // oneDNN 2 demands the shift, oneDNN 3 refuses it
  forward.erase(DNNL_ARG_SHIFT);
#endif
  return forward;
}

Eltwise::primitive_desc eltwise_forward(prop_kind purpose, algorithm function,
                                        const memory::desc& layout) {
#if DNNL_VERSION_MAJOR < 3
  return operation<Eltwise>(purpose, function, layout);
#else
  return operation<Eltwise>(purpose, function, layout, layout);
#endif
}

EltwiseGradient::primitive_desc eltwise_gradient(const Eltwise::primitive_desc& forward,
                                                 algorithm function, const memory::desc& layout) {
#if DNNL_VERSION_MAJOR < 3
  return gradient_of<EltwiseGradient>(forward, function, layout, layout);
#else
  return gradient_of<EltwiseGradient>(forward, function, layout, layout, layout);
#endif
}

dnnl::primitive_attr with_relu(bool relu) {
  dnnl::primitive_attr attributes;
  if (!relu) return attributes;
  dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR < 3
  ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  ops.append_eltwise(algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
  attributes.set_post_ops(ops);
  return attributes;
}

void CallList::add(const dnnl::primitive& primitive, const Arguments& arguments) {
  add([primitive, arguments] { primitive.execute(cpu_stream(), arguments); });
}

memory CallList::reordered(const memory& from, const memory::desc& wanted) {
  if (from.get_desc() == wanted) return from;
  const memory to(wanted, cpu_engine());
  add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  return to;
}

void CallList::run() const {
  for (const auto& call : calls_) call();
}

Net::Value Net::node(const memory::desc& desc) {
  return std::make_shared<Node>(Node{make_memory(desc), memory(), true});
}

Net::Parameter Net::parameter(const memory::desc& desc, float scale, float shift) {
  return parameters_.emplace_back(
      Parameter{make_memory(desc, scale, shift), make_memory(desc), make_memory(desc)});
}

Net::Value Net::input(const memory::dims& dims, memory::format_tag tag) {
  return std::make_shared<Node>(Node{make_memory(in_layout(dims, tag), 1), memory(), false});
}

// The first gradient is kept as it is; the second is added to it (a residual block's input).
void Net::give_gradient(const Value& to, const memory& grad) {
  if (!to->grad) {
    to->grad = grad;
    return;
  }
  const memory::desc desc = to->grad.get_desc();
  const memory other = backward_.reordered(grad, desc);
  const auto add = operation<dnnl::binary>(algorithm::binary_add, desc, desc, desc);
  backward_.add(dnnl::binary(add),
                {{DNNL_ARG_SRC_0, to->grad}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, to->grad}});
}

// Brings a weight gradient into the layout of its weight, unless it was written there.
void Net::copy_to_gradient(const memory& from, const Parameter& to) {
  if (from.get() == to.grad.get()) return;
  backward_.add(dnnl::reorder(from, to.grad), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to.grad}});
}

void Net::relu_backward(const memory& y, const memory& grad_output, const memory& grad_input) {
  const auto kind = algorithm::eltwise_relu_use_dst_for_bwd;
  const memory::desc desc = y.get_desc();
  const auto forward = eltwise_forward(prop_kind::forward_training, kind, desc);
  const auto backward = eltwise_gradient(forward, kind, desc);
  backward_.add(
      EltwiseGradient(backward),
      {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, grad_output}, {DNNL_ARG_DIFF_SRC, grad_input}});
}

void Net::cross_entropy(const Value& logits) {
  const memory::dims d = dims_of(logits->data.get_desc());
  const int64_t batch = d[0], classes = d[1];
  const memory::desc rows = in_layout(d, memory::format_tag::ab);
  const memory plain = forward_.reordered(logits->data, rows);
  const memory grad = make_memory(rows);
  std::vector<int64_t> labels(static_cast<size_t>(batch));
  for (int64_t& label : labels) label = static_cast<int64_t>(generator()() % 10);
  forward_.add([=, this] {
    double loss = 0;
    for (int64_t row = 0; row < batch; ++row) {
      const float* x = floats(plain) + row * classes;
      float* g = floats(grad) + row * classes;
      const int64_t label = labels[static_cast<size_t>(row)];
      const float largest = *std::max_element(x, x + classes);
      float sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += g[c] = std::exp(x[c] - largest);
      for (int64_t c = 0; c < classes; ++c) {
        g[c] = (g[c] / sum - (c == label ? 1.0f : 0.0f)) / static_cast<float>(batch);
      }
      loss += std::log(sum) + largest - x[label];
    }
    loss_ = static_cast<float>(loss / static_cast<double>(batch));
  });
  give_gradient(logits, grad);
  for (auto layer = unroll_.rbegin(); layer != unroll_.rend(); ++layer) (*layer)();
}

float Net::step() {
  forward_.run();
  backward_.run();
  for (const Parameter& parameter : parameters_) {
    float* weight = floats(parameter.data);
    float* momentum = floats(parameter.momentum);
    const float* grad = floats(parameter.grad);
    const int64_t n = count(parameter.data);
#pragma omp parallel for simd if (n > 20000)
    for (int64_t i = 0; i < n; ++i) {
      momentum[i] = kMomentum * momentum[i] + grad[i];
      weight[i] -= kLearningRate * momentum[i];
    }
  }
  return loss_;
}

}  // namespace ringrad::bench
