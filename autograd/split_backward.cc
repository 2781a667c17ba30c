#include "ringrad/autograd/split_backward.h"

#include <algorithm>

#include "ringrad/autograd/pass.h"
#include "ringrad/autograd/saved_tensor.h"

namespace ringrad {
namespace {

bool any(std::span<const Edge> edges) {
  return std::any_of(edges.begin(), edges.end(), [](const Edge& e) { return bool(e.node); });
}

// Stands for a node in the second half, with the node's edges to weights. It has the node's
// function or, if the first half has already computed the gradients, those gradients.
class WeightNode final : public Node {
 public:
  WeightNode(const Node& node, std::vector<Edge> edges)
      : Node(node, sizeof(WeightNode)), edges_(std::move(edges)) {}

  void keep_function(Ref<Node> function) { function_ = std::move(function); }
  void keep_gradients(std::span<const Tensor> grad_inputs, std::function<void()> later) {
    for (std::size_t i = 0; i < edges_.size(); ++i)
      grad_inputs_.push_back(save(edges_[i].node ? grad_inputs[i] : Tensor()));
    later_ = std::move(later);
  }

  void apply(BackwardContext& context) override {
    if (function_) return function_->apply(context);
    if (later_) later_();
    for (std::size_t i = 0; i < grad_inputs_.size(); ++i)
      context.set(static_cast<int>(i), grad_inputs_[i].get());
  }
  void release_saved() override {
    function_ = {};
    grad_inputs_.clear();
    later_ = {};
  }
  std::span<Edge> edges() override { return edges_; }

 private:
  std::vector<Edge> edges_;
  Ref<Node> function_;
  std::vector<SavedTensor> grad_inputs_;
  std::function<void()> later_;
};

}  // namespace

// The pass through the nodes that lead to an input: only these are entered. Every consumer of such
// a node leads to that input as well, so all consumers run.
class FirstHalf final : public Pass {
 public:
  FirstHalf(WeightGradients& weights, Where where) : Pass({}, where), weights_(weights) {}
  bool spares_leaves() const override { return false; }
  bool keeps_all_gradients() const override { return true; }

  /// What the running node's function leaves to the second half.
  std::function<void()> later;

 private:
  void discover() override;
  void run_node(Node& node) override;
  void enter_what_leads_to_inputs(std::span<Node* const> order);
  void postpone_other_roots();
  std::vector<Edge> edges_where(std::span<const Edge> edges, bool lead) const;
  void divide(Node& node, std::span<Edge> to_inputs, std::vector<Edge> to_weights);

  WeightGradients& weights_;
};

void FirstHalf::discover() {
  Pass::discover();
  std::vector<Node*> order;  // consumers first
  const auto append_if_free = [&](Node* node) {
    if (node->visit.pending == 0) order.push_back(node);
  };
  for (const Ref<Node>& root : lists_.roots) append_if_free(root.get());
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Edge& edge : order[i]->edges()) {
      if (!edge.node) continue;
      --edge.node->visit.pending;
      append_if_free(edge.node.get());
    }
  enter_what_leads_to_inputs(order);
  postpone_other_roots();
}

// Leaves all nodes, and enters those again from which an edge leads to one that has been entered.
void FirstHalf::enter_what_leads_to_inputs(std::span<Node* const> order) {
  std::vector<Node*> inputs;
  for (const WantedGradient& wanted : wanted_)
    if (was_entered(*wanted.node)) inputs.push_back(wanted.node);
  for (Node* node : order) node->visit = {};
  for (Node* node : inputs) enter(node);
  for (auto node = order.rbegin(); node != order.rend(); ++node)
    for (const Edge& edge : (*node)->edges()) {
      if (!edge.node || !was_entered(*edge.node)) continue;
      enter(*node);
      ++edge.node->visit.pending;
    }
}

void FirstHalf::postpone_other_roots() {
  const auto is_other = [&](const Ref<Node>& root) { return !was_entered(*root); };
  for (const Ref<Node>& root : lists_.roots)
    for (int k = 0; is_other(root) && k < root->num_outputs(); ++k)
      if (root->gradient(k).defined())
        weights_.add({root, k}, std::exchange(root->gradient(k), {}));
  std::erase_if(lists_.roots, is_other);
}

// The edges of a node that belong to one half; the others are empty, so they want no gradient in
// it.
std::vector<Edge> FirstHalf::edges_where(std::span<const Edge> edges, bool lead) const {
  std::vector<Edge> result;
  for (const Edge& edge : edges)
    result.push_back(edge.node && was_entered(*edge.node) == lead ? edge : Edge());
  return result;
}

void FirstHalf::run_node(Node& node) {
  std::span<Edge> to_inputs = node.edges();
  std::vector<Edge> part, to_weights;
  const bool leads_to_weights = std::ranges::any_of(
      to_inputs, [&](const Edge& edge) { return edge.node && !was_entered(*edge.node); });
  if (leads_to_weights) {
    to_weights = edges_where(to_inputs, false);
    part = edges_where(to_inputs, true);
    to_inputs = part;
  }
  lists_.grad_inputs.assign(to_inputs.size(), Tensor());
  if (arrive(node)) divide(node, to_inputs, std::move(to_weights));
  leave(node);
  hand_on(to_inputs);
}

// Calls the node's function for its edges to inputs, if it has any, and keeps what its edges to
// weights need.
void FirstHalf::divide(Node& node, std::span<Edge> to_inputs, std::vector<Edge> to_weights) {
  later = {};
  if (any(to_inputs)) call(node, to_inputs);
  const std::vector<Tensor>& grad_inputs = lists_.grad_inputs;
  bool is_computed = true;
  for (std::size_t i = 0; i < to_weights.size(); ++i)
    is_computed &= !to_weights[i].node || grad_inputs[i].defined();

  if (!is_computed && !later) {
    const auto rest = make_ref<WeightNode>(node, std::move(to_weights));
    rest->keep_function(node.move_function());
    for (int k = 0; k < node.num_outputs(); ++k)
      if (node.gradient(k).defined()) weights_.add({rest, k}, node.gradient(k));
    return;
  }
  if (later || !to_weights.empty()) {
    const auto rest = make_ref<WeightNode>(node, std::move(to_weights));
    rest->keep_gradients(grad_inputs, std::move(later));
    // Only marks an arrival: the node's own gradients are no longer needed.
    weights_.add({rest, 0}, empty({0}, {.device = Device()}));
  }
  node.release_saved();
}

void WeightGradients::add(Edge edge, Tensor gradient) {
  const std::uint32_t version = gradient.version();
  roots_.push_back({std::move(edge), std::move(gradient), version});
}

void WeightGradients::accumulate(Where where) {
  RINGRAD_CHECK(std::exchange(is_due_, false), AutogradError, where,
                "WeightGradients::accumulate: it must be called once for each first half; got a "
                "second call, or "
                "one without a first half");
  std::vector<Root> roots = std::exchange(roots_, {});
  Pass pass({}, where);
  for (Root& root : roots) {
    const Node& node = *root.edge.node;
    RINGRAD_CHECK(root.gradient.version() == root.version, AutogradError, where,
                  "WeightGradients::accumulate: the gradient of shape ", root.gradient.shape(),
                  " that reached ", node.name(), " (", to_string(node.where()),
                  ") must not change between the halves; it was changed in place at ",
                  to_string(root.gradient.storage()->changed_at()));
    pass.add_root(root.edge, std::move(root.gradient));
  }
  pass.run();
}

bool in_first_half() { return dynamic_cast<FirstHalf*>(Pass::innermost()) != nullptr; }

void leave_to_second_half(std::function<void()> callback) {
  RINGRAD_ASSERT(in_first_half());
  static_cast<FirstHalf*>(Pass::innermost())->later = std::move(callback);
}

SplitBackward backward_inputs(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
                              std::span<const Tensor> inputs, Where where) {
  SplitBackward halves{.grad_inputs = std::vector<Tensor>(inputs.size()), .weights = {}};
  FirstHalf pass(halves.weights, where);
  pass.add_roots(outputs, grad_outputs);
  pass.take_gradients("backward_inputs", inputs, halves.grad_inputs);
  pass.run();
  halves.weights.is_due_ = true;
  return halves;
}

}  // namespace ringrad
