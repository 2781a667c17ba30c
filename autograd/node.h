// Node: one recorded operation. The tape consists of nodes that point at the nodes that made their
// inputs.
//
//     x (leaf)    y = exp(x)    z = y * w     node_of(z) = [mul 12]
//                                                edge 0 -> [exp 11] -- edge 0 -> [leaf of x]
//                                                edge 1 -> [leaf of w]
//
// A sequence number that grows per thread orders the nodes: every consumer of a result has a larger
// number than its producer. So running the ready node with the largest number first is a
// topological order. It also gives the gradients of the last layer first, so communication can
// start early.
//
// A graph belongs to one thread at a time: nodes carry the bookkeeping of the backward pass that
// visits them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "ringrad/autograd/hook_list.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

class BackwardContext;
class Node;

/// The target of a gradient: an output of an earlier node. No node means that no gradient is
/// wanted.
struct Edge {
  Ref<Node> node;
  int output = 0;
};

/// Gets the gradient of one output before the node runs; returns its replacement, or an undefined
/// tensor to keep it.
using GradientHook = std::function<Tensor(const Tensor& grad)>;

class Node : public History {
 public:
  Node(const char* name, Where where, int num_outputs, std::size_t object_bytes,
       bool is_leaf = false);
  ~Node() override;

  /// Computes the gradients of the inputs from those of the outputs.
  virtual void apply(BackwardContext& context) = 0;
  /// Drops what was saved for apply().
  virtual void release_saved() = 0;
  /// Moves what apply() needs to a node without edges; afterwards this node is as after
  /// release_saved(). Null if the node has no function to move. For the second half of a split pass
  /// (split_backward.h), which outlives the graph; only the node knows its function's type.
  virtual Ref<Node> move_function() { return {}; }
  /// One edge per input.
  virtual std::span<Edge> edges() = 0;
  std::string description() const override;

  const char* name() const { return name_; }
  /// The user's line of the forward call.
  const Where& where() const { return where_; }
  std::uint64_t sequence() const { return sequence_; }
  int num_outputs() const { return num_outputs_; }
  bool is_leaf() const { return is_leaf_; }

  /// Returns a number that identifies the hook for remove_hook.
  int add_hook(int output, GradientHook hook);
  void remove_hook(int id);
  void run_hooks();
  bool has_hooks() const { return hooks_ != nullptr; }

  struct Output {
    Tensor gradient;  ///< what has flowed into it so far, in the pass that is running
    Shape shape;      ///< shape that its gradients must have
    DType dtype{};
    Device device;
  };
  Output& output(int k) {
    return k == 0 ? first_output_ : more_outputs_[static_cast<unsigned>(k - 1)];
  }
  Tensor& gradient(int k) { return output(k).gradient; }
  /// Gradients of output k must be like y from now on.
  void describe_output(int k, const Tensor& y) {
    Output& made = output(k);
    made.shape = y.shape();
    made.dtype = y.dtype();
    made.device = y.device();
  }

  /// The notes of the running backward pass; see pass.h.
  struct Visit {
    std::uint64_t pass = 0;    ///< number of the pass that visits this node; 0 for none
    std::int32_t pending = 0;  ///< consumers of the outputs that have not run yet
  };
  Visit visit;

  // Deleting a node deletes what it saved, which deletes earlier nodes, and so on down a chain of
  // any length. So a node whose deletion starts during another node's deletion waits in a queue,
  // and the stack stays flat.
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) { pool_deallocate(block, bytes); }
  static void operator delete(Node* node, std::destroying_delete_t);

 protected:
  /// Stands in for another node, at that node's position in the order.
  Node(const Node& other, std::size_t object_bytes);

 private:
  struct Hooks;

  const char* name_;
  Where where_;
  std::uint64_t sequence_;
  int num_outputs_;
  std::uint32_t object_bytes_;
  bool is_leaf_ = false;
  Node* next_to_delete_ = nullptr;
  Output first_output_;
  std::unique_ptr<Output[]> more_outputs_;
  std::unique_ptr<Hooks> hooks_;
};

/// The end of the tape: collects the gradient of a tensor that the user marked with
/// set_requires_grad.
class Leaf final : public Node {
 public:
  Leaf(const Tensor& tensor, Where where);

  void apply(BackwardContext& context) override;
  void release_saved() override {}
  std::span<Edge> edges() override { return {}; }

  /// The accumulated gradient; undefined if there is none.
  Tensor grad;
  /// True while grad is an average over ranks, to which no backward pass may add: it must be
  /// cleared or taken away first.
  bool is_average = false;
  /// If true, the next gradient replaces the contents of grad instead of being added. This clears a
  /// gradient that lives in an arena without writing zeros. Readers call Tensor::grad(), which
  /// settles it.
  bool overwrite = false;

  /// Clears the gradient that lives in grad: the next one replaces it. If grad lies in an arena and
  /// other code holds it or views of it, clear() and set() first give that code's tensors their own
  /// memory, so that they keep their values. If there are views, which may include arrays of other
  /// libraries, grad is also dropped.
  void clear();
  /// Writes the zeros that `overwrite` stands for.
  void settle();
  /// Makes x the gradient.
  void set(Tensor x);
  /// False if there is no gradient, or only the zeros of settle(): since clear(), neither a
  /// backward pass nor an in-place change of grad has left one.
  bool has_gradient() const;

  /// Called when the tensor was moved or converted: its later gradients have its new form, and the
  /// old gradient is dropped. Hooks stay.
  void follow(const Tensor& tensor);

  /// Called after a backward pass has completed this leaf's gradient.
  HookList<std::function<void(const Tensor& grad)>> completed_hooks;

 private:
  void part_from_holders();

  std::optional<std::uint32_t> zeros_at_;  // version of grad in which settle() left it
  Strides strides_;
};

/// The node that made x; null if it has none (also for a leaf that has not been used yet).
inline Node* node_of(const Tensor& x) { return static_cast<Node*>(x.impl()->history.get()); }

/// The leaf of a tensor that requires a gradient and has no recorded producer; created on first
/// use. Returns null for the result of a recorded operation and for tensors that need no gradient.
Leaf* leaf_of(const Tensor& x);

/// The leaf that x has, also while it is frozen; null if there is none.
inline Leaf* known_leaf_of(const Tensor& x) {
  Node* const node = node_of(x);
  return node && node->is_leaf() ? static_cast<Leaf*>(node) : nullptr;
}

/// The edge along which x's gradient flows; empty if x needs none.
Edge edge_to(const Tensor& x);

/// True if no other code can see this tensor's memory, so that it can become a gradient without a
/// copy.
inline bool exclusively_owned(const Tensor& x) {
  return x.impl()->unique() && x.storage()->unique() && !x.storage()->whole();
}

/// True if x lies in a slot of an arena: its storage is a slice of a slice (nn/arena.cc).
inline bool lies_in_arena(const Tensor& x) {
  return x.storage()->whole() && x.storage()->whole()->whole();
}

/// Makes y the given output of node.
void set_history(const Tensor& y, Ref<Node> node, int output = 0);

}  // namespace ringrad
