// Symbolic values of chunks: sums of contributions as expression trees. Equal trees are one object.
//
//   leaf    x2             rank 2's contribution to the chunk
//   sum     (x0 + x2)      the two operands in the order they were added, as floating point sees it
//
// Two chunks that hold the same tree hold equal bits on every machine and for every input.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
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

  /// The ranks that contribute, in order; none for kNone.
  std::vector<int> contributors(Value value) const;

  /// True if every rank's contribution occurs exactly once.
  bool is_complete(Value value) const;

  /// The first rank that contributes more than once, or -1.
  int duplicated_rank(Value value) const { return nodes_[value].duplicate; }

  /// "((x1 + x2) + x0)", or "nothing" for kNone.
  std::string to_string(Value value) const;

 private:
  struct Node {
    Value left, right;  // kNone in leaves
    int duplicate;      // -1: no rank contributes twice
    int num_ranks;      // that contribute
  };

  std::uint64_t* ranks_of(Value value) {
    return ranks_.data() + static_cast<std::size_t>(value) * words_;
  }

  const int world_size_;
  const std::size_t words_;                        // that hold a bit for each rank
  std::vector<Node> nodes_;                        // (values)
  std::vector<std::uint64_t> ranks_;               // (values, words_) which ranks contribute
  std::unordered_map<std::uint64_t, Value> sums_;  // by the two operands
};

}  // namespace ringrad
