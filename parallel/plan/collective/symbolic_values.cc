#include "ringrad/parallel/plan/collective/symbolic_values.h"

#include <algorithm>

namespace ringrad {

SymbolicValues::SymbolicValues(int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    Node leaf{kNone, kNone, std::vector<int>(world_size, 0)};
    leaf.count[rank] = 1;
    nodes_.push_back(std::move(leaf));
  }
}

SymbolicValues::Value SymbolicValues::sum(Value a, Value b) {
  const auto [place, is_new] = sums_.try_emplace({a, b}, static_cast<Value>(nodes_.size()));
  if (is_new) {
    Node node{a, b, nodes_[a].count};
    for (std::size_t r = 0; r < node.count.size(); ++r) node.count[r] += nodes_[b].count[r];
    nodes_.push_back(std::move(node));
  }
  return place->second;
}

bool SymbolicValues::is_complete(Value value) const {
  if (value == kNone) return false;
  const std::vector<int>& count = nodes_[value].count;
  return std::all_of(count.begin(), count.end(), [](int times) { return times == 1; });
}

int SymbolicValues::duplicated_rank(Value value) const {
  const std::vector<int>& count = nodes_[value].count;
  const auto twice = std::find_if(count.begin(), count.end(), [](int times) { return times > 1; });
  return twice == count.end() ? -1 : static_cast<int>(twice - count.begin());
}

std::string SymbolicValues::to_string(Value value) const {
  if (value == kNone) return "nothing";
  const Node& node = nodes_[value];
  if (node.left == kNone) return "x" + std::to_string(value);
  return "(" + to_string(node.left) + " + " + to_string(node.right) + ")";
}

}  // namespace ringrad
