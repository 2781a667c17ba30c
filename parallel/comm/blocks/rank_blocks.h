// Collectives of ranks that combine data within blocks first; then one rank of each block, its
// leader, communicates with the other leaders.
//
//     block 0   rank 0 <-- 1  reduce   rank 0 <--> rank 2  all_reduce   rank 0 --> 1  broadcast
//     block 1   rank 2 <-- 3  inside   the leaders alone                rank 2 --> 3  inside
//
// A block is the ranks of a machine (hierarchical_group.h) or of a process (logical_ranks.h). All
// ranks of all blocks make the same calls. 16-bit floats travel in float32 and are rounded once.
//
// Sums are made block by block. Between blocks the leaders' group adds in its own order. For
// `tree` order this code adds instead: every leader gets a part of all blocks' sums and adds it in
// the order in which balanced_tree.h joins the blocks; then all leaders gather the parts. So the
// order is the tree's whatever moves the data, with the traffic of a ring. The blocks' own groups
// must also add in tree order. Where blocks are not subtrees of the tree over all ranks, every rank
// gathers all data and adds it alone, which is slower and gives the same bits.

#pragma once

#include <cstddef>
#include <vector>

#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/plan/collective/sum_order.h"

namespace ringrad {

/// Which ranks are in which block.
struct RankBlocks {
  struct BlockPosition {
    std::size_t block = 0;
    int local = 0;  ///< the rank's index within its block
  };

  /// REQUIRES: each rank is in one block
  RankBlocks(std::vector<std::vector<int>> by_block, int own_rank);

  const BlockPosition& place_of(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  int world_size() const { return static_cast<int>(places.size()); }
  int size_of(std::size_t block) const { return static_cast<int>(ranks[block].size()); }

  std::vector<std::vector<int>> ranks;  ///< by block
  std::vector<BlockPosition> places;    ///< (world_size)
  int rank;                             ///< this one
  BlockPosition own;
  /// True if each block is one subtree of the balanced tree over all ranks, and the tree above them
  /// is that over the blocks: one block of all ranks, or blocks of neighbours, all of size 2^k.
  bool are_subtrees;

 private:
  bool find_subtrees() const;
};

/// The calls of one rank. Arguments are not checked. Throws: as the two groups
class BlockCollectives {
 public:
  /// `local` is the group of this rank's block. `leaders` is the group of the first ranks of all
  /// blocks, and null on other ranks.
  BlockCollectives(const RankBlocks& blocks, Communicator& local, Communicator* leaders,
                   SumOrder order)
      : blocks_(blocks), local_(local), leaders_(leaders), order_(order) {}

  /// Any of those below. Collectives in place have one tensor, which is both.
  void run(const CollectiveCall& call, const Tensor& output, const Tensor& input,
           Where where) const;
  void all_reduce(const Tensor& tensor, ReduceOp op, Where where) const;
  void reduce(const Tensor& tensor, int root, ReduceOp op, Where where) const;
  /// Costs as much as an all_reduce.
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op, Where where) const;
  void all_gather(const Tensor& output, const Tensor& input, Where where) const;
  void broadcast(const Tensor& tensor, int root, Where where) const;
  /// Costs as much as gathering all inputs.
  void all_to_all(const Tensor& output, const Tensor& input, Where where) const;

 private:
  /// The calls of leaders_plan.h that this rank makes.
  void in_levels(Collective collective, const Tensor& x, ReduceOp op, int root, Where where) const;
  template <class Body>
  void with_carrier(const Tensor& tensor, ReduceOp op, Where where, Body body) const;
  void reduce_alone(const Tensor& x, ReduceOp op, Where where) const;
  void reduce_over_leaders(const Tensor& x, ReduceOp op, Where where) const;

  const RankBlocks& blocks_;
  Communicator& local_;
  Communicator* const leaders_;
  const SumOrder order_;
};

/// x[0] = the rows of x (n, ...) reduced in the order of the balanced tree over n ranks. The other
/// rows are scratch memory. Any device.
void reduce_in_tree_order(const Tensor& x, ReduceOp op, Where where);

}  // namespace ringrad
