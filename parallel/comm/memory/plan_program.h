// PlanProgram: a proved collective plan, translated for ranks that see each other's memory.
//
// Such ranks need no queue per channel. Each rank owns one counter, its progress: how many of its
// steps it has published. As both ends know the plan, "p has sent me chunk c" is "p's progress is
// past the send that meets my receive", and one number per term says what to wait for.
//
//     step of rank 0                 becomes
//     send chunk 1 -> 1              publish own progress
//     recv_reduce chunk 0 <- 1 0     wait until rank 1's progress >= 1; add its chunk 0 and mine
//     send chunk 0 -> 1              publish own progress
//     recv chunk 1 <- 1              wait until rank 1's progress >= 3; copy its chunk 1
//     (end)                          publish; wait until each reader is past its last read of mine
//
// The program also places the chunks. A rank has two areas of memory, both cut into parts of the
// same sizes: its buffer and, where the plan needs one, a staging buffer.
//
//                        buffer                      staging buffer
//     all but these      part c: chunk c             part c: the staged copy of chunk c
//     all_to_all, rank   part s: the chunk that s    part d: the chunk that r has for d; after
//       r of n           has for r                   part n - 1: copies, and what r only relays
//
// README.md says more: "Sums delivered at once".

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

enum class Area : std::uint8_t { buffer, staging };

/// A part of an area.
struct ChunkPlace {
  Area area = Area::buffer;
  int part = 0;

  bool operator==(const ChunkPlace&) const = default;
};

/// "Rank `rank` has published `progress` steps."
struct Milestone {
  int rank;
  std::uint64_t progress;
};

/// The memory that a receive reads, and when it may read it.
struct Term {
  Milestone ready;  ///< for the rank's own memory: itself, with progress 0
  ChunkPlace place;
};

/// Another rank's memory that gets a sum.
struct Delivery {
  int rank;
  ChunkPlace place;
};

struct Instruction {
  StepOp op;
  int step = 0, chunk = 0;       ///< in the plan, for traces
  ChunkPlace place;              ///< of the chunk
  ChunkPlace copy = {};          ///< stage: where the copy goes
  bool completes = false;        ///< recv_reduce: the result is the first to hold everything
  bool delivered = false;        ///< recv: the sender writes the chunk here, nothing to copy
  std::vector<Term> terms = {};  ///< receives
  std::vector<Delivery> deliver_to = {};  ///< recv_reduce
};

/// The program of one rank.
struct PlanProgram {
  std::vector<Instruction> instructions;
  int num_leading = 0;          ///< instructions before anything is received
  int num_staged = 0;           ///< parts of the staging buffer
  bool writes_staging = false;  ///< if not, an all_to_all may have its input there
  /// The values that the rank publishes, ascending: num_leading when it enters, then its progress
  /// after each run of sends and after the last instruction.
  std::vector<std::uint64_t> publications;
  std::vector<Milestone> last_reads;  ///< after these no rank reads this rank's memory any more
};

/// The programs of all ranks.
struct PlanPrograms {
  std::string algorithm;          ///< the plan's
  int num_parts = 1;              ///< that a buffer is cut into
  bool has_shares = false;        ///< ranks own parts, which then are equal; else cuts are aligned
  std::uint64_t max_length = 0;   ///< the most instructions of any rank
  std::uint64_t fingerprint = 0;  ///< of the plan: different plans have different ones
  bool has_partial_sums = false;  ///< false: each sum is made of all its terms at once
  std::vector<PlanProgram> ranks;
};

/// Checks and translates a plan.
///
/// Throws: ValueError with the counter-example unless plan_check proves the plan for one slot per
///         channel
PlanPrograms compile(const CollectivePlan& plan, Where where = Where::current());

}  // namespace ringrad
