// Collectives of ranks that meet in blocks first, and then one of each block, its leader, with the other leaders.
//
//     block 0   rank 0 <-- 1    reduce       rank 0 <--> rank 2    all_reduce      rank 0 --> 1    broadcast
//     block 1   rank 2 <-- 3    inside       the leaders alone                     rank 2 --> 3    inside
//
// A block is what a machine's ranks are (hierarchical_group.h), or a process's (logical_ranks.h). All ranks of all
// blocks make the same calls. 16-bit floats travel in float32 and are rounded once.
//
// Sums are made block by block. Between blocks the leaders' group adds in an order of its own, or, for `tree`, we
// do: everybody gets a part of all blocks' sums, adds it as balanced_tree.h joins the blocks, and all gather the
// parts. So the order is the tree's whatever moves the data, at the bytes of a ring. The blocks' own groups must add
// in tree order too. Where blocks are no subtrees of the tree over all ranks, all is gathered and each rank adds it
// alone: slower, and the same bits.

#pragma once

#include <cstddef>
#include <vector>

#include "parallel/comm/collective_call.h"
#include "parallel/comm/communicator.h"
#include "parallel/plan/sum_order.h"

namespace ringrad {

/// Which ranks are in which block.
struct RankBlocks {
  struct Place {
    std::size_t block = 0;
    int local = 0;  ///< the how many-th there
  };

  /// REQUIRES: each rank is in one of them
  RankBlocks(std::vector<std::vector<int>> by_block, int own_rank);

  const Place& place_of(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  int world_size() const { return static_cast<int>(places.size()); }
  int size_of(std::size_t block) const { return static_cast<int>(ranks[block].size()); }

  std::vector<std::vector<int>> ranks;  ///< by block
  std::vector<Place> places;            ///< (world_size)
  int rank;                             ///< this one
  Place own;
  /// True if each block is one subtree of the balanced tree over all ranks, and the tree above them is that over the
  /// blocks: one block of all ranks, or blocks of neighbours, all of 2^k.
  bool are_subtrees;

 private:
  bool find_subtrees() const;
};

/// The calls of one rank; it checks nothing, and throws what the two groups do.
class BlockCollectives {
 public:
  /// `local` are the ranks of this rank's block. `leaders` are the first of each block, and null on other ranks.
  BlockCollectives(const RankBlocks& blocks, Communicator& local, Communicator* leaders,
                   SumOrder order)
      : blocks_(blocks), local_(local), leaders_(leaders), order_(order) {}

  /// What the ranks were called for, in rank order.
  std::vector<CollectiveCall> calls(const CollectiveCall& own, Where where) const;

  void all_reduce(const Tensor& tensor, ReduceOp op, Where where) const;
  void reduce(const Tensor& tensor, int root, ReduceOp op, Where where) const;
  /// Costs what an all_reduce does.
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op, Where where) const;
  void all_gather(const Tensor& output, const Tensor& input, Where where) const;
  void broadcast(const Tensor& tensor, int root, Where where) const;
  /// Costs what it does to gather all inputs.
  void all_to_all(const Tensor& output, const Tensor& input, Where where) const;

 private:
  template <class Body>
  void with_carrier(const Tensor& tensor, ReduceOp op, Where where, Body body) const;
  void reduce_alone(const Tensor& x, ReduceOp op, Where where) const;
  void reduce_over_leaders(const Tensor& x, ReduceOp op, Where where) const;

  const RankBlocks& blocks_;
  Communicator& local_;
  Communicator* const leaders_;
  const SumOrder order_;
};

/// x[0] = the rows of x (n, ...) joined as the balanced tree over n joins ranks; the others are scratch. Any device.
void reduce_in_tree_order(const Tensor& x, ReduceOp op, Where where);

}  // namespace ringrad
