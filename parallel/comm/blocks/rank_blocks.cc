#include "ringrad/parallel/comm/blocks/rank_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/comm/blocks/reduce_terms_cuda.h"
#include "ringrad/parallel/plan/collective/balanced_tree.h"
#include "ringrad/parallel/plan/collective/leaders_plan.h"

namespace ringrad {

RankBlocks::RankBlocks(std::vector<std::vector<int>> by_block, int own_rank)
    : ranks(std::move(by_block)), rank(own_rank) {
  for (std::size_t block = 0; block < ranks.size(); ++block)
    for (std::size_t local = 0; local < ranks[block].size(); ++local) {
      const auto rank = static_cast<std::size_t>(ranks[block][local]);
      places.resize(std::max(places.size(), rank + 1));
      places[rank] = {block, static_cast<int>(local)};
    }
  own = place_of(rank);
  are_subtrees = find_subtrees();
}

// 2^k neighbours become one node in the first k rounds, since a tree over n 2^k ranks folds 2^k
// times as many pairs as one over n.
bool RankBlocks::find_subtrees() const {
  const int size = size_of(0);
  if (ranks.size() > 1 && !std::has_single_bit(static_cast<unsigned>(size))) return false;
  for (int r = 0; r < world_size(); ++r)
    if (static_cast<int>(place_of(r).block) != r / size || place_of(r).local != r % size)
      return false;
  return true;
}

// --- Sums ---

// A mean is a sum that the caller divides at the end.
void reduce_in_tree_order(const Tensor& x, ReduceOp op, Where where) {
  const DType dtype = carrier_dtype(x.dtype());
  for (const Join& join : balanced_tree(static_cast<int>(x.size(0)))) {
    const Tensor left = view::select(x, 0, join.left), right = view::select(x, 0, join.right);
    const std::byte* const terms[] = {left.raw_data(), right.raw_data()};
    std::byte* const sums[] = {left.raw_data()};
    if (x.device().is_cuda())
      cuda::reduce_terms(x.device(), dtype, op, terms, sums, left.numel(), 1, where);
    else
      reduce_terms(dtype, op, terms, sums, left.numel(), 1);
  }
}

// body(x, op) reduces x in place, which carries what the tensor holds.
template <class Body>
void BlockCollectives::with_carrier(const Tensor& tensor, ReduceOp op, Where where,
                                    Body body) const {
  const bool rounds = op != ReduceOp::min && op != ReduceOp::max;
  const bool is_narrow = tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16;
  const bool is_carried = is_narrow && (rounds || order_ == SumOrder::tree);
  const Tensor x = is_carried ? kernels::cast(tensor, DType::float32, where) : tensor;
  body(x, op == ReduceOp::mean ? ReduceOp::sum : op);
  if (op == ReduceOp::mean)
    kernels::binary<ops::Div>(
        x, full({}, blocks_.world_size(), {.dtype = x.dtype(), .device = x.device()}, where), x,
        where);
  if (is_carried) kernels::copy_(tensor, x, where);
}

// x is every leader's afterwards.
void BlockCollectives::reduce_over_leaders(const Tensor& x, ReduceOp op, Where where) const {
  if (order_ != SumOrder::tree) return leaders_->all_reduce(x, op, where);
  const std::int64_t n = leaders_->world_size(), count = x.numel(), part = (count + n - 1) / n;
  if (n == 1 || count == 0) return;
  const Options like{.dtype = x.dtype(), .device = x.device()};
  const Tensor own = zeros({n * part}, like, where), parts = empty({n, part}, like, where);
  const Tensor values = view::slice(own, 0, 0, count), flat = view::reshape(x, {count});
  kernels::copy_(values, flat, where);
  leaders_->all_to_all(parts, own, where);
  reduce_in_tree_order(parts, op, where);
  leaders_->all_gather(own, view::select(parts, 0, 0), where);
  kernels::copy_(flat, values, where);
}

// Each rank adds what all have.
void BlockCollectives::reduce_alone(const Tensor& x, ReduceOp op, Where where) const {
  const Tensor all =
      empty({blocks_.world_size(), x.numel()}, {.dtype = x.dtype(), .device = x.device()}, where);
  all_gather(all, x, where);
  reduce_in_tree_order(all, op, where);
  kernels::copy_(x, view::reshape(view::select(all, 0, 0), x.shape()), where);
}

void BlockCollectives::run(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                           Where where) const {
  switch (call.op) {
    case CollectiveOp::all_reduce:
      return all_reduce(output, call.reduce, where);
    case CollectiveOp::reduce:
      return reduce(output, call.peer, call.reduce, where);
    case CollectiveOp::reduce_scatter:
      return reduce_scatter(output, input, call.reduce, where);
    case CollectiveOp::all_gather:
      return all_gather(output, input, where);
    case CollectiveOp::broadcast:
      return broadcast(output, call.peer, where);
    default:
      return all_to_all(output, input, where);
  }
}

void BlockCollectives::in_levels(Collective collective, const Tensor& x, ReduceOp op, int root,
                                 Where where) const {
  using Ranks = LevelCall::Ranks;
  const auto& [block, local] = blocks_.place_of(root);
  const bool is_roots = blocks_.own.block == block;
  for (const LevelCall& call : calls_in_levels(collective, static_cast<int>(block), local)) {
    const bool is_leaders = call.ranks == Ranks::leaders;
    if (is_leaders && !leaders_) continue;
    if (is_roots ? call.ranks == Ranks::other_hosts : call.ranks == Ranks::roots_host) continue;
    Communicator& group = is_leaders ? *leaders_ : local_;
    if (call.collective == Collective::all_reduce)
      reduce_over_leaders(x, op, where);
    else if (call.collective == Collective::reduce)
      group.reduce(x, call.root, op, where);
    else
      group.broadcast(x, call.root, where);
  }
}

void BlockCollectives::all_reduce(const Tensor& tensor, ReduceOp op, Where where) const {
  with_carrier(tensor, op, where, [&](const Tensor& x, ReduceOp sum) {
    if (order_ == SumOrder::tree && !blocks_.are_subtrees) return reduce_alone(x, sum, where);
    in_levels(Collective::all_reduce, x, sum, 0, where);
  });
}

void BlockCollectives::reduce(const Tensor& tensor, int root, ReduceOp op, Where where) const {
  if (order_ == SumOrder::tree) return all_reduce(tensor, op, where);
  with_carrier(tensor, op, where, [&](const Tensor& x, ReduceOp sum) {
    in_levels(Collective::reduce, x, sum, root, where);
  });
}

void BlockCollectives::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                      Where where) const {
  const Tensor all = kernels::clone(input, where);
  all_reduce(all, op, where);
  const Tensor parts = view::reshape(all, {blocks_.world_size(), output.numel()});
  kernels::copy_(output, view::reshape(view::select(parts, 0, blocks_.rank), output.shape()),
                 where);
}

// --- Copies ---

// Blocks send as much as the largest, so that one call is enough; those with fewer ranks end in
// nothing.
void BlockCollectives::all_gather(const Tensor& output, const Tensor& input, Where where) const {
  const Options like{.dtype = output.dtype(), .device = output.device()};
  const std::int64_t part = input.numel();
  const auto num_blocks = static_cast<std::int64_t>(blocks_.ranks.size());
  std::int64_t most = 0;
  for (const auto& block : blocks_.ranks)
    most = std::max(most, static_cast<std::int64_t>(block.size()));
  const Tensor own = empty({most, part}, like, where);
  local_.all_gather(view::slice(own, 0, 0, blocks_.size_of(blocks_.own.block)), input, where);
  const Tensor rows = view::reshape(output, {blocks_.world_size(), part});
  if (leaders_) {
    const Tensor all = empty({num_blocks, most, part}, like, where);
    leaders_->all_gather(all, own, where);
    for (int r = 0; r < blocks_.world_size(); ++r) {
      const auto& [block, local] = blocks_.place_of(r);
      kernels::copy_(view::select(rows, 0, r),
                     view::select(view::select(all, 0, static_cast<std::int64_t>(block)), 0, local),
                     where);
    }
  }
  local_.broadcast(output, 0, where);
}

void BlockCollectives::broadcast(const Tensor& tensor, int root, Where where) const {
  in_levels(Collective::broadcast, tensor, ReduceOp::sum, root, where);
}

void BlockCollectives::all_to_all(const Tensor& output, const Tensor& input, Where where) const {
  const std::int64_t n = blocks_.world_size(), part = input.numel() / n;
  const Tensor all = empty({n, n, part}, {.dtype = input.dtype(), .device = input.device()}, where);
  all_gather(all, input, where);
  kernels::copy_(view::reshape(output, {n, part}), view::select(all, 1, blocks_.rank), where);
}

}  // namespace ringrad
