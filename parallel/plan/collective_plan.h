// A collective as a value: who lends which chunk to whom, who adds what to what, in which order.
//
// A plan is data made by a pure function of (world size, segments). It can be printed, compared,
// proved (check.h), counted, and run (parallel/comm): all of them read the same list and none knows
// which algorithm wrote it. Writing a new algorithm means writing this list and nothing else.
//
// The machine a plan is written for:
//
//        rank 0              rank 1              rank 2        every rank has one buffer, cut into
//     +----+----+----+    +----+----+----+    +----+----+----+ the same chunks, and an ordered list
//     | c0 | c1 | c2 |    | c0 | c1 | c2 |    | c0 | c1 | c2 | of steps of its own
//     +----+----+----+    +----+----+----+    +----+----+----+
//          |                  ^        |          ^
//          +---- channel -----+        +----------+      one first-in first-out channel per ordered
//                                                        pair of ranks carries chunks
//
//   send         c -> p        offers chunk c to p, who may read it where it lies: the rank must
//                              not write c again before p has taken it
//   recv         c <- p        chunk c becomes the chunk that p offers next
//   recv_reduce  c <- p q ...  chunk c becomes p's chunk + q's chunk + ..., added in this order; a
//                              rank that adds its own chunk lists itself at the place it takes
//
// Loans may still be out after a rank's last step: who runs a plan lets the rank's buffer go only
// when its last chunks were taken.
//
// The order inside recv_reduce is what makes floating-point results a property of the plan. `step`
// is a time slot, for readers and drawings; execution follows the order of each rank's steps.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ringrad {

/// What the ranks want to hold in the end. Chunk c belongs to rank `owner(plan, c)`.
///
///   all_reduce      every rank: every chunk, summed over all ranks
///   reduce_scatter  rank r: its own chunks, summed over all ranks; the rest is scratch
///   all_gather      every rank: every chunk as its owner had it
///   broadcast       every rank: every chunk as the root had it
enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };

enum class StepOp : std::uint8_t { send, recv, recv_reduce };

struct Step {
  int step;                ///< time slot, for people
  int rank;                ///< whose step it is
  StepOp op;               ///< what it does
  int chunk;               ///< to which chunk of the rank's buffer
  std::vector<int> peers;  ///< send, recv: the one peer; recv_reduce: the terms, in order

  bool operator==(const Step&) const = default;
};

struct CollectivePlan {
  Collective collective = Collective::all_reduce;
  std::string algorithm;  ///< "ring", "two_shot", or the name of yours
  int world_size = 1;
  int num_chunks = 1;
  int root = 0;  ///< broadcast only
  std::vector<Step> steps;

  void send(int step, int rank, int chunk, int to);
  void recv(int step, int rank, int chunk, int from);
  void recv_reduce(int step, int rank, int chunk, std::vector<int> terms);

  bool operator==(const CollectivePlan&) const = default;
};

/// Half-open range of elements.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// The elements of chunk `chunk` when `count` elements are cut into `num_chunks` chunks:
/// contiguous, in order, sizes differing by at most one, so chunks may be empty. All ranks must
/// agree on it, hence a function of these three alone.
///
/// REQUIRES: count >= 0, 0 <= chunk < num_chunks
ElementRange chunk_range(std::int64_t count, int num_chunks, int chunk);

/// The rank that chunk c belongs to in reduce_scatter and all_gather: equal, contiguous shares.
///
/// REQUIRES: num_chunks is a multiple of world_size
int owner(const CollectivePlan& plan, int chunk);

/// Number of time slots.
int num_steps(const CollectivePlan& plan);

/// Elements that `rank` sends, all its messages together, for a buffer of `count` elements.
std::int64_t elements_sent(const CollectivePlan& plan, int rank, std::int64_t count);

const char* name(Collective collective);
const char* name(StepOp op);

/// "rank 2 recv_reduce chunk 1 <- 0 1 2"
std::ostream& operator<<(std::ostream& out, const Step& step);

/// A title line, then the steps by time slot, one per line.
std::ostream& operator<<(std::ostream& out, const CollectivePlan& plan);

}  // namespace ringrad
