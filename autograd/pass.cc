#include "ringrad/autograd/pass.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/trace.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

thread_local Pass::Workspace spare_workspace;
std::atomic<std::uint64_t> next_pass_number{0};

bool runs_later(const Node* a, const Node* b) { return a->sequence() < b->sequence(); }

void check_root(const Tensor& root, const Tensor& gradient, Where where) {
  RINGRAD_CHECK(
      root.defined() && root.requires_grad(), AutogradError, where,
      "backward: the tensor must have been computed from one that requires a gradient; got ",
      root.defined() ? concat("one made at ", to_string(root.made_at()), " without history")
                     : std::string("an undefined tensor"));
  if (!gradient.defined()) {
    RINGRAD_CHECK(root.numel() == 1, ShapeError, where,
                  "backward: a tensor of more than one element needs a gradient of its shape; got ",
                  root.shape(), " and no gradient");
    return;
  }
  RINGRAD_CHECK(gradient.shape() == root.shape(), ShapeError, where,
                "backward: the gradient must have the shape of the tensor; got ", gradient.shape(),
                " for ", root.shape());
  check_same_dtype("backward", gradient, root, where);
  check_same_device("backward", gradient, root, where);
}

}  // namespace

void Pass::Workspace::clear() {
  entered.clear();
  roots.clear();
  ready.clear();
  grad_inputs.clear();
}

Pass::Pass(BackwardOptions options, Where where)
    : lists_(std::exchange(spare_workspace, {})),
      options_(options),
      where_(where),
      number_(++next_pass_number),
      outer_(std::exchange(innermost_, this)),
      outer_node_(std::exchange(running_, nullptr)) {}

// A pass that failed must leave nothing on its nodes: a recorded gradient could form a cycle with
// the graph.
Pass::~Pass() {
  for (Node* node : lists_.entered)
    if (node->visit.pass == number_) {
      for (int k = 0; k < node->num_outputs(); ++k) node->gradient(k) = {};
      node->visit = {};
    }
  for (Suspended& state : suspended_) {
    state.node->visit = state.visit;
    for (int k = 0; k < state.node->num_outputs(); ++k)
      state.node->gradient(k) = std::move(state.gradients[static_cast<unsigned>(k)]);
  }
  lists_.clear();
  spare_workspace = std::move(lists_);
  innermost_ = outer_;
  running_ = outer_node_;
}

bool Pass::enter(Node* node) {
  if (node->visit.pass == number_) return false;
  if (node->visit.pass != 0) suspend(*node);
  node->visit = {number_, 0};
  lists_.entered.push_back(node);
  return true;
}

void Pass::suspend(Node& node) {
  Suspended& state = suspended_.emplace_back(&node, node.visit);
  for (int k = 0; k < node.num_outputs(); ++k)
    state.gradients.push_back(std::exchange(node.gradient(k), {}));
}

void Pass::add_root(const Edge& root, Tensor gradient) {
  if (enter(root.node.get())) lists_.roots.push_back(root.node);
  deliver(root, std::move(gradient));
}

void Pass::add_roots(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs) {
  RINGRAD_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), ValueError, where_,
                "backward: there must be one gradient per output; got ", grad_outputs.size(),
                " and ", outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor gradient = grad_outputs.empty() ? Tensor() : grad_outputs[i];
    check_root(outputs[i], gradient, where_);
    const Options like{.dtype = outputs[i].dtype(), .device = outputs[i].device()};
    add_root(edge_to(outputs[i]),
             gradient.defined() ? gradient : ones(outputs[i].shape(), like, where_));
  }
}

void Pass::take_gradients(const char* operation, std::span<const Tensor> inputs,
                          std::span<Tensor> results) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RINGRAD_CHECK(inputs[i].defined() && inputs[i].requires_grad(), AutogradError, where_,
                  operation, ": every input must require a gradient; got ",
                  inputs[i].defined() ? concat("one of shape ", inputs[i].shape(), " made at ",
                                               to_string(inputs[i].made_at()), " that does not")
                                      : std::string("an undefined tensor"));
    const Edge edge = edge_to(inputs[i]);
    wanted_.push_back({edge.node.get(), edge.output, &results[i]});
  }
}

void Pass::discover() {
  for (std::size_t i = 0; i < lists_.entered.size(); ++i)
    for (const Edge& edge : lists_.entered[i]->edges()) {
      if (!edge.node) continue;
      enter(edge.node.get());
      ++edge.node->visit.pending;
    }
}

void Pass::run() {
  const TraceSpan span("backward", "compute");
  discover();
  const GradMode mode(options_.create_graph);
  const Autocast off(DType::float32);
  for (const Ref<Node>& root : lists_.roots)
    if (root->visit.pending == 0) make_ready(root.get());
  std::vector<Node*>& ready = lists_.ready;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), runs_later);
    Node* node = ready.back();
    ready.pop_back();
    run_node(*node);
  }
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    const auto callback = std::move(callbacks_[i]);  // it may add others, which moves the list
    callback();
  }
}

void Pass::make_ready(Node* node) {
  if (node->is_leaf()) return apply(*node);
  lists_.ready.push_back(node);
  std::push_heap(lists_.ready.begin(), lists_.ready.end(), runs_later);
}

void Pass::run_node(Node& node) {
  const std::span<Edge> edges = node.edges();
  lists_.grad_inputs.assign(edges.size(), Tensor());
  apply(node);
  hand_on(edges);
}

// Runs the node's own function, unless no gradient has reached it.
void Pass::apply(Node& node) {
  const TraceSpan span(node.name(), "backward");
  if (arrive(node)) {
    call(node, node.edges());
    if (!options_.retain_graph && !options_.create_graph) node.release_saved();
  }
  leave(node);
}

void Pass::deliver(const Edge& edge, Tensor gradient) {
  Tensor& sum = edge.node->gradient(edge.output);
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  // Adds in place if no other code holds the sum so far and its elements do not share memory, as
  // those of an expanded gradient do.
  const bool in_place =
      !options_.create_graph && exclusively_owned(sum) && is_dense(sum.shape(), sum.strides());
  if (in_place)
    kernels::add_(sum, gradient, 1, where_);
  else
    sum = add_gradients(sum, gradient, where_);
}

}  // namespace ringrad
