#include "ringrad/parallel/plan/collective/chain_plan.h"

#include <algorithm>
#include <vector>

#include "ringrad/parallel/plan/collective/compose.h"

namespace ringrad {
namespace {

// first, first + 1, ..., around to first - 1.
std::vector<int> line_from(int first, int world_size) {
  std::vector<int> line;
  for (int i = 0; i < world_size; ++i) line.push_back((first + i) % world_size);
  return line;
}

void reduce_along(CollectivePlan& plan, const std::vector<int>& line) {
  for (int hop = 0; hop + 1 < static_cast<int>(line.size()); ++hop) {
    plan.send(hop, line[hop], 0, line[hop + 1]);
    plan.recv_reduce(hop, line[hop + 1], 0, {line[hop], line[hop + 1]});
  }
}

void copy_along(CollectivePlan& plan, int slot, const std::vector<int>& line) {
  for (int hop = 0; hop + 1 < static_cast<int>(line.size()); ++hop) {
    plan.send(slot + hop, line[hop], 0, line[hop + 1]);
    plan.recv(slot + hop, line[hop + 1], 0, line[hop]);
  }
}

}  // namespace

CollectivePlan chain_all_reduce(WorldSize world_size, int segments) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "chain", world_size);
  std::vector<int> line = line_from(0, world_size);
  reduce_along(plan, line);
  std::reverse(line.begin(), line.end());
  copy_along(plan, world_size - 1, line);
  return pipelined(plan, segments);
}

CollectivePlan chain_broadcast(WorldSize world_size, int root, int segments) {
  CollectivePlan plan = empty_rooted_plan(Collective::broadcast, "chain", world_size, root);
  copy_along(plan, 0, line_from(root, world_size));
  return pipelined(plan, segments);
}

CollectivePlan chain_reduce(WorldSize world_size, int root, int segments) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "chain", world_size, root);
  reduce_along(plan, line_from((root + 1) % world_size, world_size));
  return pipelined(plan, segments);
}

}  // namespace ringrad
