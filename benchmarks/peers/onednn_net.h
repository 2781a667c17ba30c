#pragma once

// Peer: oneDNN by itself. A network whose every training step replays two lists of calls that were
// made once:
//
//   building   conv, batch_norm, ...  append their forward call and remember how to go back
//   finishing  cross_entropy          unrolls the memory in reverse: the backward calls
//   step       forward calls, loss, backward calls, SGD
//
// Primitives and buffers are made once, oneDNN chooses the layouts, weights stay in the chosen
// layout, ReLU is fused into batch norm and linear, labels and the one batch never change. There is
// no tape, no allocator and no check: a bound to aim at, not a library to use.
//
// For oneDNN 2 and 3: whatever differs between them stays behind operation(), gradient_of(), ...

#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace ringrad::bench {

using Arguments = std::unordered_map<int, dnnl::memory>;

dnnl::engine& cpu_engine();

/// A float32 buffer filled with `shift` plus normal noise of deviation `scale`.
dnnl::memory make_memory(const dnnl::memory::desc& desc, float scale = 0, float shift = 0);

/// The elements of a float32 buffer.
float* floats(const dnnl::memory& memory);

/// Float32 descriptors: in the layout that oneDNN likes best, and in a given one.
dnnl::memory::desc any_layout(const dnnl::memory::dims& dims);
dnnl::memory::desc in_layout(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag);

dnnl::memory::dims dims_of(const dnnl::memory::desc& desc);

/// The descriptor of a primitive with attributes, from the arguments of its desc in oneDNN 2.
/// oneDNN 3 has no descs.
template <class Primitive, class... Args>
typename Primitive::primitive_desc operation_with(const dnnl::primitive_attr& attributes,
                                                  const Args&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), attributes, cpu_engine()};
#else
  return {cpu_engine(), arguments..., attributes};
#endif
}

/// The same without attributes.
template <class Primitive, class... Args>
typename Primitive::primitive_desc operation(const Args&... arguments) {
  return operation_with<Primitive>(dnnl::primitive_attr(), arguments...);
}

/// The same for a gradient, which is told the forward pass.
template <class Primitive, class Forward, class... Args>
typename Primitive::primitive_desc gradient_of(const Forward& forward, const Args&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), cpu_engine(), forward};
#else
  return {cpu_engine(), arguments..., forward};
#endif
}

// oneDNN 2 has two sets of these; the second takes the arguments of oneDNN 3.
#if DNNL_VERSION_MAJOR < 3
using Pooling = dnnl::pooling_v2_forward;
using PoolingGradient = dnnl::pooling_v2_backward;
using Softmax = dnnl::softmax_v2_forward;
#else
using Pooling = dnnl::pooling_forward;
using PoolingGradient = dnnl::pooling_backward;
using Softmax = dnnl::softmax_forward;
#endif

// The source and the result of these have the same layout; only oneDNN 3 wants to be told both.
using BatchNorm = dnnl::batch_normalization_forward;
using BatchNormGradient = dnnl::batch_normalization_backward;
using Eltwise = dnnl::eltwise_forward;
using EltwiseGradient = dnnl::eltwise_backward;

/// Batch norm in training mode, with scale and shift, and with ReLU fused or without.
BatchNorm::primitive_desc batch_norm_forward(const dnnl::memory::desc& layout, bool relu);
BatchNormGradient::primitive_desc batch_norm_gradient(const BatchNorm::primitive_desc& forward,
                                                      const dnnl::memory::desc& layout, bool relu);
/// Those arguments of batch norm that its gradient takes too.
Arguments batch_norm_kept(Arguments forward);

Eltwise::primitive_desc eltwise_forward(dnnl::prop_kind purpose, dnnl::algorithm function,
                                        const dnnl::memory::desc& layout);
EltwiseGradient::primitive_desc eltwise_gradient(const Eltwise::primitive_desc& forward,
                                                 dnnl::algorithm function,
                                                 const dnnl::memory::desc& layout);

/// ReLU as an epilogue of another primitive, or nothing.
dnnl::primitive_attr with_relu(bool relu);

/// A list of calls that can be repeated.
class CallList {
 public:
  void add(const dnnl::primitive& primitive, const Arguments& arguments);
  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }

  /// `memory` in the layout of `wanted`: itself, or a copy that a reorder call will fill.
  dnnl::memory reordered(const dnnl::memory& memory, const dnnl::memory::desc& wanted);

  void run() const;

 private:
  std::vector<std::function<void()>> calls_;
};

class Net {
 public:
  // A value on the way through the network, and its gradient once a later layer has given one.
  struct Node {
    dnnl::memory data;
    dnnl::memory grad;
    bool needs_grad = true;
  };
  using Value = std::shared_ptr<Node>;

  Value input(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag);
  Value conv(const Value& x, int64_t outputs, int64_t kernel, int64_t stride, bool bias);
  Value batch_norm(const Value& x, bool relu);
  Value pool(const Value& x, int64_t kernel, dnnl::algorithm kind);
  Value flatten(const Value& x);
  Value linear(const Value& x, int64_t outputs, bool relu);
  Value add_relu(const Value& x, const Value& y);

  /// Ends the network with the loss against fixed random labels; nothing can follow.
  void cross_entropy(const Value& logits);

  /// One training step with SGD and momentum; returns the loss before the update.
  float step();

 private:
  struct Parameter {
    dnnl::memory data, grad, momentum;
  };

  Value node(const dnnl::memory::desc& desc);
  Parameter parameter(const dnnl::memory::desc& desc, float scale, float shift);
  void give_gradient(const Value& to, const dnnl::memory& grad);
  void copy_to_gradient(const dnnl::memory& from, const Parameter& to);
  void relu_backward(const dnnl::memory& y, const dnnl::memory& grad_output,
                     const dnnl::memory& grad_input);

  CallList forward_, backward_;
  std::vector<std::function<void()>> unroll_;  // appends to backward_, last layer first
  std::vector<Parameter> parameters_;
  float loss_ = 0;
};

}  // namespace ringrad::bench
