// Pass: one backward pass over the part of the graph that its roots reach.
//
//     add_root   gradient(root) = what the user gives, or ones
//     discover   for each edge a -> b of the nodes below the roots: ++pending(b)
//     run        while a node is ready: take the latest of them;
//                    its function makes gradients of its inputs from gradient(node)   (call)
//                    along each edge to b: gradient(b) += the input's gradient        (deliver)
//                                          if --pending(b) == 0, b is ready           (hand_on)
//
// Only for code that runs a pass: the engine, and split_backward.cc.

#pragma once

#include <cstdint>
#include <forward_list>
#include <functional>
#include <span>
#include <vector>

#include "ringrad/autograd/anomaly.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/node.h"

namespace ringrad {

class Pass {
 public:
  Pass(BackwardOptions options, Where where);
  virtual ~Pass();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void add_root(const Edge& root, Tensor gradient);
  /// Adds roots that a user names, after checking them. If no gradients are given, they are ones.
  void add_roots(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs);
  void run();

  // -- For grad() ---------------------------------------------------------------------------------

  /// Stores the gradients that reach the inputs in `results`, which must outlive the pass; leaves
  /// then accumulate nothing.
  void take_gradients(const char* operation, std::span<const Tensor> inputs,
                      std::span<Tensor> results);
  /// True for grad(), which must not touch any leaf's gradient, now or later.
  virtual bool spares_leaves() const { return !wanted_.empty(); }

  // -- For functions and hooks that the pass calls ------------------------------------------------

  void add_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }
  const Tensor& keep_while_node_runs(Tensor x) { return kept_.emplace_front(std::move(x)); }
  /// True if the next gradient delivered to this leaf is its whole gradient and replaces the old
  /// one.
  bool may_write_into(Leaf& leaf) const {
    return leaf.overwrite && leaf.visit.pending == 1 && !leaf.gradient(0).defined() &&
           !leaf.has_hooks() && wanted_.empty() && !options_.create_graph;
  }
  Pass* outer() const { return outer_; }
  /// The pass that this thread runs, or null; it may run within another one.
  static Pass* innermost() { return innermost_; }
  /// The node that this thread's innermost pass is calling.
  static Node* running() { return running_; }

  // -- For one half of a pass (split_backward.cc) -------------------------------------------------

  /// True if gradients that a function sets for edges of the other half are kept as well.
  virtual bool keeps_all_gradients() const { return false; }

  /// The lists of a pass. The next pass reuses their memory: a small network runs a thousand passes
  /// in the time of a few thousand allocations.
  struct Workspace {
    std::vector<Ref<Node>> roots;
    std::vector<Node*> entered;  ///< every node of the pass
    std::vector<Node*> ready;    ///< a heap; the largest sequence number on top
    std::vector<Tensor> grad_inputs;

    void clear();
  };

 protected:
  struct WantedGradient {
    Node* node;
    int output;
    Tensor* result;
  };

  /// Enters the nodes that will run, and counts the consumers of each.
  virtual void discover();
  /// Calls a node that is not a leaf, and passes its results on.
  virtual void run_node(Node& node);

  /// Returns true on this pass's first visit.
  bool enter(Node* node);
  bool was_entered(const Node& node) const { return node.visit.pass == number_; }
  /// Runs the node's hooks and takes the gradients that are asked for there. Returns true if the
  /// node's function is to be called.
  bool arrive(Node& node);
  /// Calls the node's function for the given edges; see BackwardContext.
  void call(Node& node, std::span<Edge> edges);
  /// Clears what the pass stored on the node.
  void leave(Node& node);
  /// Delivers what the function has set along these edges; each edge's node then waits for one
  /// consumer less.
  void hand_on(std::span<Edge> edges);

  Workspace lists_;
  std::vector<WantedGradient> wanted_;

 private:
  // A node that an outer pass is visiting.
  struct Suspended {
    Node* node;
    Node::Visit visit;
    std::vector<Tensor> gradients;
  };

  void suspend(Node& node);
  void make_ready(Node* node);
  void apply(Node& node);
  void deliver(const Edge& edge, Tensor gradient);

  static constinit inline thread_local Pass* innermost_ = nullptr;
  static constinit inline thread_local Node* running_ = nullptr;

  BackwardOptions options_;
  Where where_;
  std::uint64_t number_;
  Pass* outer_;
  Node* outer_node_;
  std::vector<Suspended> suspended_;
  std::forward_list<Tensor> kept_;
  std::vector<std::function<void()>> callbacks_;
};

// Implementation details follow: the steps of every node.

inline bool Pass::arrive(Node& node) {
  running_ = &node;
  node.run_hooks();
  bool reached = false;
  for (int k = 0; k < node.num_outputs(); ++k) reached |= node.gradient(k).defined();
  for (const WantedGradient& wanted : wanted_)
    if (wanted.node == &node) *wanted.result = node.gradient(wanted.output);
  return reached && !(node.is_leaf() && !wanted_.empty());
}

inline void Pass::call(Node& node, std::span<Edge> edges) {
  BackwardContext context(node, edges, lists_.grad_inputs, where_);
  node.apply(context);
  if (detail::detects_anomaly) detail::check_gradients(lists_.grad_inputs, node, where_);
  kept_.clear();
}

inline void Pass::leave(Node& node) {
  for (int k = 0; k < node.num_outputs(); ++k) node.gradient(k) = {};
  node.visit.pass = 0;
  running_ = nullptr;
}

inline void Pass::hand_on(std::span<Edge> edges) {
  std::vector<Tensor>& grad_inputs = lists_.grad_inputs;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) continue;
    if (grad_inputs[i].defined()) deliver(edges[i], std::move(grad_inputs[i]));
    if (--edges[i].node->visit.pending == 0) make_ready(edges[i].node.get());
  }
}

}  // namespace ringrad
