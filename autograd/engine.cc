#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <forward_list>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/function.h"
#include "autograd/grad_mode.h"
#include "kernels/elementwise.h"

namespace ringrad {
namespace {

class Pass;
thread_local Pass* current_pass = nullptr;
thread_local Node* current_node = nullptr;
std::atomic<std::uint64_t> next_pass_number{0};

bool runs_later(const Node* a, const Node* b) { return a->sequence() < b->sequence(); }

// The lists of a pass, whose memory the next one uses again: a small network has a thousand passes
// in the time of a few thousand allocations.
struct Workspace {
  std::vector<Ref<Node>> roots;
  std::vector<Node*> entered;  // every node of the pass
  std::vector<Node*> ready;    // a heap; the largest sequence number on top
  std::vector<Tensor> grad_inputs;

  void clear() {
    entered.clear();
    roots.clear();
    ready.clear();
    grad_inputs.clear();
  }
};
thread_local Workspace spare_workspace;

// One backward pass over the part of the graph that its roots reach.
class Pass {
 public:
  Pass(BackwardOptions options, Where where)
      : options_(options),
        where_(where),
        number_(++next_pass_number),
        outer_(std::exchange(current_pass, this)),
        outer_node_(std::exchange(current_node, nullptr)),
        lists_(std::exchange(spare_workspace, {})) {}
  ~Pass();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void add_root(const Tensor& root, Tensor gradient);
  // Takes the gradient that reaches `input` into *result; leaves then accumulate nothing.
  void capture(const Tensor& input, Tensor* result);
  void run();

  void add_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }
  const Tensor& keep_while_node_runs(Tensor x) { return kept_.emplace_front(std::move(x)); }
  // True if what is delivered next to this leaf is its whole gradient and replaces the old one.
  bool may_write_into(Leaf& leaf) const {
    return leaf.overwrite && leaf.visit.pending == 1 && !leaf.gradient(0).defined() &&
           !leaf.has_hooks() && captures_.empty() && !options_.create_graph;
  }
  bool captures() const { return !captures_.empty(); }
  Pass* outer() const { return outer_; }

 private:
  struct Capture {
    Node* node;
    int output;
    Tensor* result;
  };
  // A node that an outer pass is in the middle of visiting.
  struct Suspended {
    Node* node;
    Node::Visit visit;
    std::vector<Tensor> gradients;
  };

  bool enter(Node* node);
  void suspend(Node& node);
  void discover();
  void make_ready(Node* node);
  void run_node(Node& node);
  void apply(Node& node);
  void deliver(const Edge& edge, Tensor gradient);

  BackwardOptions options_;
  Where where_;
  std::uint64_t number_;
  Pass* outer_;
  Node* outer_node_;
  Workspace lists_;
  std::vector<Capture> captures_;
  std::vector<Suspended> suspended_;
  std::forward_list<Tensor> kept_;
  std::vector<std::function<void()>> callbacks_;
};

// A pass that failed leaves nothing on its nodes: a recorded gradient could hold the graph in a
// cycle.
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
  current_pass = outer_;
  current_node = outer_node_;
}

// Returns true on the first visit of this pass.
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

void Pass::add_root(const Tensor& root, Tensor gradient) {
  Edge edge = edge_to(root);
  if (enter(edge.node.get())) lists_.roots.push_back(edge.node);
  deliver(edge, std::move(gradient));
}

void Pass::capture(const Tensor& input, Tensor* result) {
  if (const Edge edge = edge_to(input); edge.node)
    captures_.push_back({edge.node.get(), edge.output, result});
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
  std::vector<Tensor>& grad_inputs = lists_.grad_inputs;
  grad_inputs.assign(edges.size(), Tensor());
  apply(node);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) continue;
    if (grad_inputs[i].defined()) deliver(edges[i], std::move(grad_inputs[i]));
    if (--edges[i].node->visit.pending == 0) make_ready(edges[i].node.get());
  }
}

// Runs the node's own function, unless no gradient has reached it, and clears what the pass kept on
// it.
void Pass::apply(Node& node) {
  Node* consumer = std::exchange(current_node, &node);
  node.run_hooks();
  bool reached = false;
  for (int k = 0; k < node.num_outputs(); ++k) reached |= node.gradient(k).defined();
  for (const Capture& capture : captures_)
    if (capture.node == &node) *capture.result = node.gradient(capture.output);
  if (reached && !(node.is_leaf() && !captures_.empty())) {
    BackwardContext context(node, lists_.grad_inputs, where_);
    node.apply(context);
    kept_.clear();
    if (!options_.retain_graph && !options_.create_graph) node.release_saved();
  }
  for (int k = 0; k < node.num_outputs(); ++k) node.gradient(k) = {};
  node.visit.pass = 0;
  current_node = consumer;
}

void Pass::deliver(const Edge& edge, Tensor gradient) {
  Tensor& sum = edge.node->gradient(edge.output);
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  // In place when nobody else can see the sum so far, and its elements do not share memory, as those
  // of an expanded gradient do.
  const bool in_place = !options_.create_graph && sum.impl()->unique() && sum.storage()->unique() &&
                        sum.dtype() == gradient.dtype() && sum.shape() == gradient.shape() &&
                        is_dense(sum.shape(), sum.strides());
  if (in_place)
    kernels::add_(sum, gradient, 1, where_);
  else
    sum = add_gradients(sum, gradient, where_);
}

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

void add_roots(Pass& pass, std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
               Where where) {
  RINGRAD_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), ValueError, where,
                "backward: there must be one gradient per output; got ", grad_outputs.size(),
                " and ", outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor gradient = grad_outputs.empty() ? Tensor() : grad_outputs[i];
    check_root(outputs[i], gradient, where);
    const Options like{.dtype = outputs[i].dtype(), .device = outputs[i].device()};
    pass.add_root(outputs[i],
                  gradient.defined() ? gradient : ones(outputs[i].shape(), like, where));
  }
}

}  // namespace

Tensor BackwardContext::destination(int i) const {
  Node* node = edges_[static_cast<unsigned>(i)].node.get();
  if (!node || !node->is_leaf()) return {};
  auto& leaf = static_cast<Leaf&>(*node);
  return current_pass->may_write_into(leaf) ? leaf.grad : Tensor();
}

void BackwardContext::set(int i, Tensor grad_input) {
  const auto at = static_cast<unsigned>(i);
  if (Node* node = edges_[at].node.get(); node && node->is_leaf() && grad_input.defined()) {
    auto& leaf = static_cast<Leaf&>(*node);
    // Written in its destination, it is the leaf's gradient from here on.
    if (leaf.overwrite && grad_input.is(leaf.grad)) leaf.overwrite = false;
  }
  grad_inputs_[at] = std::move(grad_input);
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
              BackwardOptions options, Where where) {
  Pass pass(options, where);
  add_roots(pass, outputs, grad_outputs, where);
  pass.run();
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, BackwardOptions options,
                         Where where) {
  std::vector<Tensor> results(inputs.size());
  Pass pass(options, where);
  add_roots(pass, outputs, grad_outputs, where);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RINGRAD_CHECK(inputs[i].defined() && inputs[i].requires_grad(), AutogradError, where,
                  "grad: every input must require a gradient; got ",
                  inputs[i].defined() ? concat("one of shape ", inputs[i].shape(), " made at ",
                                               to_string(inputs[i].made_at()), " that does not")
                                      : std::string("an undefined tensor"));
    pass.capture(inputs[i], &results[i]);
  }
  pass.run();
  return results;
}

Tensor grad(const Tensor& output, const Tensor& input, const Tensor& grad_output,
            BackwardOptions options, Where where) {
  const std::span<const Tensor> grads(&grad_output, grad_output.defined() ? 1 : 0);
  return grad({&output, 1}, {&input, 1}, grads, options, where).front();
}

void at_end_of_backward(std::function<void()> callback) {
  RINGRAD_ASSERT(current_pass);
  Pass* pass = current_pass;
  while (pass->outer()) pass = pass->outer();
  pass->add_callback(std::move(callback));
}

Tensor add_gradients(const Tensor& a, const Tensor& b, Where where) {
  Tensor sum = kernels::binary<ops::Add>(a, b, where);
  if (needs_grad(a, b))
    record("add_gradients", where, sum, {&a, &b}, [](BackwardContext& context) {
      context.set(0, context.grad_output());
      context.set(1, context.grad_output());
    });
  return sum;
}

Node* running_node() { return current_node; }

bool computing_grad() {
  for (const Pass* pass = current_pass; pass; pass = pass->outer())
    if (pass->captures()) return true;
  return false;
}

const Tensor& keep_while_node_runs(Tensor x) {
  RINGRAD_ASSERT(current_node);
  return current_pass->keep_while_node_runs(std::move(x));
}

}  // namespace ringrad
