// plan_check: a proof that a collective plan keeps its collective's promise, or a counter-example.
//
// The proof is symbolic: a chunk's value is not a number but the expression that made it, such as
// ((x1 + x2) + x0), where x1 stands for rank 1's contribution. One replay covers all data and, as
// replay.h explains, all interleavings. It proves, in this order:
//
//   shape      ranks, chunks, peers and root exist; a message has two ends; time slots run forward
//   progress   no deadlock when every channel holds `slots` messages
//   matching   every send is received, as the chunk it was sent as
//   reads      no rank overwrites a chunk or a staged copy that it has sent before the receiver has
//              certainly read it, so zero-copy reads of the sender's memory are safe
//              (happens_before.h)
//   sums       no chunk is used before it has a value, no contribution is added twice
//   result     every rank holds what the collective promises: each contribution exactly once and,
//              for all_reduce, the same expression on all ranks: equal bits whatever the rounding

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/collective/symmetry.h"

namespace ringrad {

/// The kind of promise that a plan breaks.
enum class PlanFault : std::uint8_t {
  malformed,
  deadlock,
  unmatched,
  overwritten_read,
  no_value,
  duplicate,
  wrong_result,
};

/// Where and how a plan fails. Indices are -1 where they do not apply.
struct CounterExample {
  PlanFault fault;
  int rank;
  int step_index;  ///< into plan.steps
  int chunk;
  std::string text;  ///< "<what must hold>; got <what happens>", naming rank, step and chunk
};

/// Returns nothing if `plan` is proved for channels of `slots` messages, and therefore for larger
/// ones; else the first failure. If all ranks do the same up to renaming (symmetry.h), the proof
/// runs one rank's list.
///
/// REQUIRES: slots >= 1
std::optional<CounterExample> plan_check(const CollectivePlan& plan, int slots = 1);

/// The same for a plan that is made rank by rank. If all ranks do the same, the plan is never held
/// as a whole.
///
///     plan_check([](int rank) { return ring_all_reduce({1024, rank}); });
///
/// REQUIRES: as above; plan_of(kAllRanks) has the steps of plan_of(0), plan_of(1), ...
std::optional<CounterExample> plan_check(const PlanOfRank& plan_of, int slots = 1);

/// The first part of the proof alone: ranks, chunks, peers and root exist, so that code may index
/// by them.
std::optional<CounterExample> plan_shape_check(const CollectivePlan& plan);

const char* name(PlanFault fault);

/// "duplicate: <text>"
std::ostream& operator<<(std::ostream& out, const CounterExample& example);

}  // namespace ringrad
