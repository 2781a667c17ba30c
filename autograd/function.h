// Recording an operation: forward and gradient stand in one function body, so that the mathematics
// reads as a pair.
//
//     Tensor mul(const Tensor& a, const Tensor& b, Where where) {
//       Tensor y = kernels::binary<Mul>(a, b, where);
//       if (needs_grad(a, b))
//         record("mul", where, y, {&a, &b}, [a = save(a), b = save(b)](BackwardContext& context) {
//           if (context.needs(0)) context.set(0, context.grad_output() * b.get());
//           if (context.needs(1)) context.set(1, context.grad_output() * a.get());
//         });
//       return y;
//     }
//
// The lambda runs with recording off, unless the caller asked for create_graph. In that case
// grad_enabled() is true in the lambda, and the gradient must be composed of public operators so
// that it can be differentiated again.
//
// Users define their own functions in exactly this way.

#pragma once

#include <array>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/node.h"
#include "ringrad/autograd/saved_tensor.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// True if the operation on these inputs must be recorded. Undefined tensors (absent optional
/// inputs) need nothing.
template <class... Tensors>
bool needs_grad(const Tensors&... inputs) {
  if (detail::quiet_time) [[unlikely]]
    (detail::check_quiet(inputs), ...);
  return grad_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}
inline bool needs_grad(std::span<const Tensor> inputs) {
  if (detail::quiet_time) [[unlikely]]
    for (const Tensor& x : inputs) detail::check_quiet(x);
  if (!grad_enabled()) return false;
  for (const Tensor& x : inputs)
    if (x.defined() && x.requires_grad()) return true;
  return false;
}

/// Makes y the result of a recorded operation.
///
/// Shapes:  the gradient that `backward` sets for an input must have that input's shape and dtype
/// Saves:   what the lambda captures; capture tensors by save(x) or save_output(y), never directly,
///          so that in-place changes are noticed and y does not own itself
template <std::size_t N, std::invocable<BackwardContext&> F>
void record(const char* name, Where where, const Tensor& y, const Tensor* const (&inputs)[N],
            F&& backward);

/// The same for any number of inputs and outputs; the lambda reads context.grad_output(k), which is
/// undefined if no gradient reached output k.
template <std::invocable<BackwardContext&> F>
void record(const char* name, Where where, std::span<const Tensor> outputs,
            std::span<const Tensor> inputs, F&& backward);

/// Returns y, recorded as a linear function of x by its adjoint: grad_input = adjoint(grad_output).
/// REQUIRES: what `adjoint` captures does not change, as shapes and options do not
template <std::invocable<const Tensor&> F>
Tensor record_linear(const char* name, Where where, Tensor y, const Tensor& x, F adjoint);

// Implementation details follow.

namespace detail {

template <class Edges, class F>
class FunctionNode final : public Node {
 public:
  FunctionNode(const char* name, Where where, int num_outputs, Edges edges, F&& backward)
      : Node(name, where, num_outputs, sizeof(FunctionNode)),
        edges_(std::move(edges)),
        backward_(std::move(backward)) {}
  FunctionNode(const FunctionNode& other, std::optional<F>&& backward)
      : Node(other, sizeof(FunctionNode)), backward_(std::move(backward)) {}

  void apply(BackwardContext& context) override {
    RINGRAD_CHECK(
        backward_, AutogradError, context.where(), "backward: the history of ", name(), " (",
        to_string(where()),
        ") must still be there; got a second backward through it after the first freed it; "
        "pass retain_graph to the first");
    (*backward_)(context);
  }
  void release_saved() override { backward_.reset(); }
  Ref<Node> move_function() override {
    Ref<Node> taker = make_ref<FunctionNode>(*this, std::move(backward_));
    backward_.reset();
    return taker;
  }
  std::span<Edge> edges() override { return edges_; }

 private:
  Edges edges_;
  std::optional<F> backward_;
};

}  // namespace detail

template <std::size_t N, std::invocable<BackwardContext&> F>
void record(const char* name, Where where, const Tensor& y, const Tensor* const (&inputs)[N],
            F&& backward) {
  std::array<Edge, N> edges;
  for (std::size_t i = 0; i < N; ++i) edges[i] = edge_to(*inputs[i]);
  using FunctionNode = detail::FunctionNode<std::array<Edge, N>, std::decay_t<F>>;
  set_history(y,
              make_ref<FunctionNode>(name, where, 1, std::move(edges), std::forward<F>(backward)));
}

template <std::invocable<BackwardContext&> F>
void record(const char* name, Where where, std::span<const Tensor> outputs,
            std::span<const Tensor> inputs, F&& backward) {
  constexpr std::size_t kMost = std::numeric_limits<decltype(TensorImpl::output)>::max();
  RINGRAD_CHECK(outputs.size() <= kMost, ValueError, where, name, ": at most ", kMost,
                " results can be recorded; got ", outputs.size());
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& x : inputs) edges.push_back(edge_to(x));
  using FunctionNode = detail::FunctionNode<std::vector<Edge>, std::decay_t<F>>;
  const Ref<Node> node = make_ref<FunctionNode>(name, where, static_cast<int>(outputs.size()),
                                                std::move(edges), std::forward<F>(backward));
  for (std::size_t k = 0; k < outputs.size(); ++k)
    set_history(outputs[k], node, static_cast<int>(k));
}

template <std::invocable<const Tensor&> F>
Tensor record_linear(const char* name, Where where, Tensor y, const Tensor& x, F adjoint) {
  if (needs_grad(x))
    record(name, where, y, {&x}, [adjoint = std::move(adjoint)](BackwardContext& context) {
      context.set(0, adjoint(context.grad_output()));
    });
  return y;
}

}  // namespace ringrad
