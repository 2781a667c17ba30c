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
// Moving a cache line between processors costs more than the arithmetic, so one translation more: a
// sum that is sent on may be written to its receiver in the same pass, while it is in a register.
// The receiver's recv then only waits. That is allowed when the receiver has certainly finished
// with its old chunk by the time the sum is made, which happens_before.h decides. In a two-shot,
// and in a ring of two, each element is so read once per rank, written once per rank, and done
// with.

#pragma once

#include <cstdint>
#include <vector>

#include "core/error.h"
#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// "Rank `rank` has published `progress` steps."
struct Milestone {
  int rank;
  std::uint64_t progress;
};

struct Instruction {
  StepOp op;
  int chunk;
  bool completes = false;        ///< recv_reduce: the result holds every rank's contribution
  bool delivered = false;        ///< recv: the sender writes the chunk here, nothing to copy
  std::vector<Milestone> terms;  ///< receives: whose chunk, and when; one's own with progress 0
  std::vector<int> deliver_to;   ///< recv_reduce: ranks whose chunk gets the result as well
};

/// What one rank does.
struct PlanProgram {
  std::vector<Instruction> instructions;
  int num_leading_sends = 0;          ///< sends before anything is received
  std::vector<Milestone> last_reads;  ///< after these nobody reads this rank's buffer any more
};

/// The programs of all ranks.
struct PlanPrograms {
  int num_chunks = 1;
  std::uint64_t max_length = 0;  ///< the most instructions of any rank
  std::vector<PlanProgram> ranks;
};

/// Checks and translates a plan.
///
/// Throws: ValueError with the counter-example unless plan_check proves the plan for one slot per
///         channel
PlanPrograms compile(const CollectivePlan& plan, Where where = Where::current());

}  // namespace ringrad
