// A collective as a value: which rank offers which chunk to which rank, what is added, and in which
// order.
//
// The machine that a plan is written for:
//
//        rank 0              rank 1              rank 2        every rank has one buffer, cut into
//     +----+----+----+    +----+----+----+    +----+----+----+ the same chunks, and an ordered list
//     | c0 | c1 | c2 |    | c0 | c1 | c2 |    | c0 | c1 | c2 | of steps of its own
//     +----+----+----+    +----+----+----+    +----+----+----+
//          |                  ^        |          ^
//          +---- channel -----+        +----------+      one first-in first-out channel per ordered
//                                                        pair of ranks carries messages
//
//   send         c -> p        offers chunk c to p, which may read it in place (a zero-copy read):
//                              the rank must not write c again before p has taken it
//   recv         c <- p        chunk c becomes the chunk that p offers next
//   recv_reduce  c <- p q ...  chunk c becomes p's chunk + q's chunk + ..., added in this order; a
//                              rank that adds its own chunk lists itself at its place in the order
//   stage        c             copies chunk c to the staging buffer: a rank that offers the copy
//                              may write c at once
//   send_staged  c -> p        offers that copy to p; the rank must not stage c again before p has
//                              taken it
//
// README.md says more: "Plans".

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/parallel/plan/collective/few_ints.h"

namespace ringrad {

/// The promise: what each rank holds in the end. Chunk c belongs to rank `owner(plan, c)`.
///
///   all_reduce      every rank: every chunk, summed over all ranks
///   reduce_scatter  rank r: its own chunks, summed over all ranks; the rest is scratch
///   all_gather      every rank: every chunk as its owner had it
///   broadcast       every rank: every chunk as the root had it
///   reduce          the root: every chunk, summed over all ranks; elsewhere all is scratch
///   all_to_all      rank d: the chunks s * world_size + d, one from each rank s. Rank s begins
///                   with the row of chunks s * world_size, ..., one for each rank d
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
};
inline constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                              Collective::all_gather, Collective::broadcast,
                                              Collective::reduce,     Collective::all_to_all};

/// True for the collectives that add contributions.
constexpr bool adds(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

/// True for broadcast and reduce.
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

enum class StepOp : std::uint8_t { send, recv, recv_reduce, stage, send_staged };

constexpr bool is_send(StepOp op) { return op == StepOp::send || op == StepOp::send_staged; }
constexpr bool is_receive(StepOp op) { return op == StepOp::recv || op == StepOp::recv_reduce; }

struct Step {
  int step;       ///< time slot, for readers
  int rank;       ///< the rank that takes the step
  StepOp op;      ///< what it does
  int chunk;      ///< index of the chunk in the rank's buffer
  FewInts peers;  ///< sends, recv: the one peer; recv_reduce: the terms, in order

  bool operator==(const Step&) const = default;
};

/// True if `next`, which follows `send` in its rank's list, belongs to the same message.
bool continues_message(const Step& send, const Step& next);

inline constexpr int kAllRanks = -1;

/// The number of ranks to make a plan for. It may also ask for the steps of one rank alone.
struct WorldSize {
  WorldSize(int size, int only = kAllRanks) : world_size(size), only_rank(only) {}

  operator int() const { return world_size; }

  int world_size;
  int only_rank;  ///< the plan holds only this rank's steps
};

struct CollectivePlan {
  Collective collective = Collective::all_reduce;
  std::string algorithm;  ///< "ring", "two_shot", or the name of your own
  int world_size = 1;
  int num_chunks = 1;
  int root = 0;               ///< broadcast and reduce only
  int only_rank = kAllRanks;  ///< the plan holds only this rank's steps
  std::vector<Step> steps;

  /// True if the plan holds the rank's steps. Steps of other ranks are not added.
  bool holds(int rank) const { return only_rank == kAllRanks || only_rank == rank; }

  /// The ranks whose steps the plan holds.
  std::vector<int> ranks() const;

  void add(Step step) {
    if (holds(step.rank)) steps.push_back(std::move(step));
  }

  void send(int step, int rank, int chunk, int to) { add({step, rank, StepOp::send, chunk, {to}}); }
  void recv(int step, int rank, int chunk, int from) {
    add({step, rank, StepOp::recv, chunk, {from}});
  }
  void recv_reduce(int step, int rank, int chunk, FewInts terms) {
    add({step, rank, StepOp::recv_reduce, chunk, std::move(terms)});
  }
  void stage(int step, int rank, int chunk) { add({step, rank, StepOp::stage, chunk, {}}); }
  void send_staged(int step, int rank, int chunk, int to) {
    add({step, rank, StepOp::send_staged, chunk, {to}});
  }

  bool operator==(const CollectivePlan&) const = default;
};

/// A plan without steps.
///
/// Throws: std::invalid_argument unless world_size >= 1, num_chunks >= 1, and only_rank is
///         kAllRanks or a rank
CollectivePlan empty_plan(Collective collective, std::string algorithm, WorldSize world_size,
                          int num_chunks = 1);

/// The same for the collectives that have a root.
///
/// Throws: std::invalid_argument also unless 0 <= root < world_size
CollectivePlan empty_rooted_plan(Collective collective, std::string algorithm, WorldSize world_size,
                                 int root);

/// Half-open range of elements.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// The elements of chunk `chunk` when `count` elements are cut into `num_chunks` chunks. The chunks
/// are contiguous and in order, and begin at multiples of `granule` elements (or at the end). Their
/// sizes differ by at most `granule`, so chunks may be empty; no chunk is larger than chunk 0. All
/// ranks must agree on the cut, so it is a function of these four arguments alone.
///
/// REQUIRES: count >= 0, 0 <= chunk < num_chunks, granule >= 1
ElementRange chunk_range(std::int64_t count, int num_chunks, int chunk, std::int64_t granule = 1);

/// Chunks that no rank owns begin at multiples of this many bytes of the buffer: vector loads and
/// stores need it.
inline constexpr std::int64_t kChunkAlignment = 16;

/// The rank that owns a chunk in reduce_scatter and all_gather, or at which it starts in
/// all_to_all. Ranks own equal, contiguous shares.
///
/// REQUIRES: num_chunks is a multiple of world_size
int owner(const CollectivePlan& plan, int chunk);

/// The rank whose contribution a chunk holds in the end, in a collective that does not add.
int contributor(const CollectivePlan& plan, int chunk);

/// True if the collective promises the chunk's final content on `rank`; otherwise that content is
/// scratch.
bool is_promised(const CollectivePlan& plan, int rank, int chunk);

/// The number of elements of a chunk for a buffer of `count` elements. In an all_to_all the buffer
/// is the row of chunks that a rank begins with.
std::int64_t chunk_size(const CollectivePlan& plan, int chunk, std::int64_t count);

/// 0, 1, ..., count - 1.
std::vector<int> first_integers(int count);

/// Number of time slots.
int num_steps(const CollectivePlan& plan);

/// Elements that `rank` sends in all its messages, for a buffer of `count` elements.
std::int64_t elements_sent(const CollectivePlan& plan, int rank, std::int64_t count);

/// Messages that `rank` sends.
int messages_sent(const CollectivePlan& plan, int rank);

const char* name(Collective collective);
const char* name(StepOp op);

/// "rank 2 recv_reduce chunk 1 <- 0 1 2"
std::ostream& operator<<(std::ostream& out, const Step& step);

/// A title line, then the steps by time slot, one per line.
std::ostream& operator<<(std::ostream& out, const CollectivePlan& plan);

}  // namespace ringrad
