#include "ringrad/parallel/plan/collective/symbolic_values.h"

#include <bit>

namespace ringrad {
namespace {

constexpr int kBits = 64;

// The first of two ranks, of which either may be -1 for none.
int first_of(int a, int b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  return a < b ? a : b;
}

}  // namespace

SymbolicValues::SymbolicValues(int world_size)
    : world_size_(world_size), words_((static_cast<std::size_t>(world_size) + kBits - 1) / kBits) {
  ranks_.resize(static_cast<std::size_t>(world_size) * words_);
  for (int rank = 0; rank < world_size; ++rank) {
    nodes_.push_back({kNone, kNone, -1, 1});
    ranks_of(rank)[rank / kBits] = std::uint64_t{1} << rank % kBits;
  }
}

SymbolicValues::Value SymbolicValues::sum(Value a, Value b) {
  const std::uint64_t operands =
      static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  const auto next = static_cast<Value>(nodes_.size());
  const auto [place, is_new] = sums_.try_emplace(operands, next);
  if (!is_new) return place->second;
  Node node{a, b, first_of(nodes_[a].duplicate, nodes_[b].duplicate), 0};
  ranks_.resize(ranks_.size() + words_);
  for (std::size_t w = 0; w < words_; ++w) {
    const std::uint64_t left = ranks_of(a)[w], right = ranks_of(b)[w];
    ranks_of(next)[w] = left | right;
    node.num_ranks += std::popcount(left | right);
    if ((left & right) != 0)
      node.duplicate =
          first_of(node.duplicate, static_cast<int>(w) * kBits + std::countr_zero(left & right));
  }
  nodes_.push_back(node);
  return next;
}

std::vector<int> SymbolicValues::contributors(Value value) const {
  std::vector<int> ranks;
  if (value == kNone) return ranks;
  for (int rank = 0; rank < world_size_; ++rank) {
    const std::uint64_t word = ranks_[static_cast<std::size_t>(value) * words_ + rank / kBits];
    if (word >> rank % kBits & 1) ranks.push_back(rank);
  }
  return ranks;
}

bool SymbolicValues::is_complete(Value value) const {
  return value != kNone && nodes_[value].duplicate < 0 && nodes_[value].num_ranks == world_size_;
}

std::string SymbolicValues::to_string(Value value) const {
  if (value == kNone) return "nothing";
  const Node& node = nodes_[value];
  if (node.left == kNone) return "x" + std::to_string(value);
  return "(" + to_string(node.left) + " + " + to_string(node.right) + ")";
}

}  // namespace ringrad
