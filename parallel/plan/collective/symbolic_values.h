// Symbolic values of chunks: sums of contributions as expression trees. Equal trees are one object.
//
//   leaf    x2             rank 2's contribution to the chunk
//   sum     (x0 + x2)      the two operands in the order they were added, as floating point sees it
//
// Two chunks that hold the same tree hold equal bits on every machine and for every input.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ringrad {

class SymbolicValues {
 public:
  /// An index into the pool of trees.
  using Value = int;
  static constexpr Value kNone = -1;

  explicit SymbolicValues(int world_size);

  /// Rank `rank`'s contribution.
  Value leaf(int rank) const { return rank; }

  /// a + b. REQUIRES: neither is kNone
  Value sum(Value a, Value b);

  /// How often each rank contributes: (world_size). REQUIRES: not kNone
  const std::vector<int>& counts(Value value) const { return nodes_[value].count; }

  /// True if every rank's contribution occurs exactly once.
  bool is_complete(Value value) const;

  /// A rank that contributes more than once, or -1.
  int duplicated_rank(Value value) const;

  /// "((x1 + x2) + x0)", or "nothing" for kNone.
  std::string to_string(Value value) const;

 private:
  struct Node {
    Value left, right;       // kNone in leaves
    std::vector<int> count;  // (world_size) occurrences of each rank
  };

  std::vector<Node> nodes_;
  std::map<std::pair<Value, Value>, Value> sums_;
};

}  // namespace ringrad
