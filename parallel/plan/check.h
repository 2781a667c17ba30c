// plan_check: a proof that a collective plan does what its collective promises, or a
// counter-example.
//
// The proof is symbolic: a chunk's value is not a number but the expression that made it, such as
// ((x1 + x2) + x0), where x1 stands for rank 1's contribution. One replay covers all data and, as
// replay.h explains, all interleavings. Proved, in this order:
//
//   shape      ranks, chunks, peers and root exist; a message has two ends; time slots run forward
//   progress   no deadlock when every channel holds `slots` messages
//   matching   every send is received, as the chunk it was sent as
//   loans      no rank writes a chunk, or makes a copy anew, that it has lent while its reader may
//              still be reading, so a receiver may read the sender's memory in place
//              (happens_before.h)
//   sums       no chunk is used before it has a value, no contribution is added twice
//   result     every rank holds what the collective promises: each contribution exactly once and,
//              for all_reduce, the same expression on all ranks: equal bits whatever the rounding

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// What kind of promise a plan breaks.
enum class PlanFault : std::uint8_t {
  malformed,
  deadlock,
  unmatched,
  overwritten_loan,
  no_value,
  duplicate,
  wrong_result,
};

/// Where and how a plan fails. Indices are -1 where they mean nothing.
struct CounterExample {
  PlanFault fault;
  int rank;
  int step_index;  ///< into plan.steps
  int chunk;
  std::string text;  ///< "<what must hold>; got <what happens>", naming rank, step and chunk
};

/// Nothing if `plan` is proved for channels of `slots` messages and therefore for larger ones; else
/// the first failure.
///
/// REQUIRES: slots >= 1
std::optional<CounterExample> plan_check(const CollectivePlan& plan, int slots = 1);

const char* name(PlanFault fault);

/// "duplicate: <text>"
std::ostream& operator<<(std::ostream& out, const CounterExample& example);

}  // namespace ringrad
