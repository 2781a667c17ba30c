#include "ringrad/parallel/plan/collective/check.h"

#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

#include "ringrad/parallel/plan/collective/chunk_table.h"
#include "ringrad/parallel/plan/collective/happens_before.h"
#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/collective/symbolic_run.h"
#include "ringrad/parallel/plan/collective/symmetric_proof.h"

namespace ringrad {
namespace {

using Verdict = std::optional<CounterExample>;
using Value = SymbolicValues::Value;

class Proof {
 public:
  Proof(const CollectivePlan& plan, int slots) : plan_(plan), slots_(slots) {}

  Verdict run() {
    if (Verdict bad = check_lists()) return bad;
    replay_ = replay(plan_, slots_);
    if (Verdict bad = check_progress()) return bad;
    if (Verdict bad = check_matching()) return bad;
    if (Verdict bad = check_zero_copy_reads()) return bad;
    return check_sums_and_result();
  }

  Verdict check_shape() const {
    Verdict bad = check_header();
    return bad ? bad : check_steps();
  }

  // What can be said of each rank's list without running it.
  Verdict check_lists() const {
    Verdict bad = check_shape();
    return bad ? bad : check_slots();
  }

 private:
  // A failure at one step: "step 3, rank 0 send chunk 1 -> 2: <what must hold>; got <fact>".
  template <class... Parts>
  CounterExample at(PlanFault fault, int index, const Parts&... parts) const {
    const Step& step = plan_.steps[index];
    return {fault, step.rank, index, step.chunk,
            text_of("step ", step.step, ", ", step, ": ", parts...)};
  }

  bool is_rank(int rank) const { return rank >= 0 && rank < plan_.world_size; }

  // --- shape ---

  Verdict check_header() const {
    const auto malformed = [](const auto&... parts) {
      return CounterExample{PlanFault::malformed, -1, -1, -1, text_of(parts...)};
    };
    if (plan_.world_size < 1 || plan_.num_chunks < 1)
      return malformed("world size and number of chunks must be positive; got ", plan_.world_size,
                       " and ", plan_.num_chunks);
    const bool has_owners = plan_.collective == Collective::reduce_scatter ||
                            plan_.collective == Collective::all_gather;
    if (has_owners && plan_.num_chunks % plan_.world_size != 0)
      return malformed("every rank must own as many chunks as the next; got ", plan_.num_chunks,
                       " chunks and ", plan_.world_size, " ranks");
    if (plan_.collective == Collective::all_to_all &&
        plan_.num_chunks != std::int64_t{plan_.world_size} * plan_.world_size)
      return malformed("an all_to_all must have a chunk for every pair of ranks; got ",
                       plan_.num_chunks, " chunks and ", plan_.world_size, " ranks");
    if (!is_rank(plan_.root))
      return malformed("root must be a rank; got root ", plan_.root, " and ", plan_.world_size,
                       " ranks");
    return {};
  }

  Verdict check_steps() const {
    std::vector<int> last_step_with(plan_.world_size, -1);  // that has the rank as a peer
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) {
      const Step& step = plan_.steps[i];
      const auto malformed = [&](const auto&... parts) {
        return at(PlanFault::malformed, i, parts...);
      };
      if (!is_rank(step.rank))
        return malformed("rank must be in [0, ", plan_.world_size, "); got ", step.rank);
      if (step.chunk < 0 || step.chunk >= plan_.num_chunks)
        return malformed("chunk must be in [0, ", plan_.num_chunks, "); got ", step.chunk);
      for (int peer : step.peers)
        if (!is_rank(peer))
          return malformed("peers must be in [0, ", plan_.world_size, "); got ", peer);
      std::size_t distinct = 0;
      for (int peer : step.peers) distinct += std::exchange(last_step_with[peer], i) != i;
      if (step.op == StepOp::recv_reduce) {
        if (distinct != step.peers.size() || distinct == 0)
          return malformed("a sum must have one or more different terms; got ", step.peers.size(),
                           " of which ", distinct, " differ");
      } else if (step.op == StepOp::stage) {
        if (distinct > 0)
          return malformed("a copy of one's own must have no peers; got ", step.peers.size());
      } else if (step.peers.size() != 1 || step.peers[0] == step.rank) {
        return malformed("a message must have one peer, another rank; got ", step.peers.size(),
                         " peers");
      }
    }
    return {};
  }

  Verdict check_slots() const {
    std::vector<int> slot(plan_.world_size, 0);
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) {
      const Step& step = plan_.steps[i];
      if (step.step < slot[step.rank])
        return at(PlanFault::malformed, i, "a rank's time slots must not run backwards; got ",
                  step.step, " after ", slot[step.rank]);
      slot[step.rank] = step.step;
    }
    return {};
  }

  // --- progress ---

  Verdict check_progress() const {
    if (replay_.finished) return {};
    std::ostringstream who;
    int first = -1;
    for (int index : replay_.stuck_at) {
      if (index < 0) continue;
      if (first < 0) first = index;
      who << "; " << plan_.steps[index] << " waits";
    }
    return CounterExample{
        PlanFault::deadlock, plan_.steps[first].rank, first, plan_.steps[first].chunk,
        text_of("with ", slots_, " slots per channel every rank must finish", who.str())};
  }

  // --- matching ---

  Verdict check_matching() const {
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) {
      const Step& step = plan_.steps[i];
      if (is_send(step.op) && replay_.partners[i].empty())
        return at(PlanFault::unmatched, i, "rank ", step.peers[0],
                  " must receive it; got no such step");
      if (!is_receive(step.op)) continue;
      for (int send : replay_.partners[i]) {
        if (send < 0) continue;
        const Step& sent = plan_.steps[send];
        if (sent.chunk != step.chunk)
          return at(PlanFault::unmatched, i, "rank ", sent.rank, " must offer chunk ", step.chunk,
                    "; got chunk ", sent.chunk, " of its step ", sent.step);
        if (sent.step > step.step)
          return at(PlanFault::malformed, i, "a message must not arrive before it is sent; got ",
                    step.step, " and ", sent.step);
      }
    }
    return {};
  }

  // --- zero-copy reads ---

  // A receive writes the chunk, a stage writes its staged copy; each has readers of its own.
  Verdict check_zero_copy_reads() const {
    HappensBefore happens_before(plan_, replay_);
    ChunkTable<std::vector<int>> of_chunk(plan_), of_copy(plan_);  // sends since the last write
    for (int index : replay_.order) {
      happens_before.advance(index);
      const Step& step = plan_.steps[index];
      const bool is_copy = step.op == StepOp::stage || step.op == StepOp::send_staged;
      std::vector<int>& lent = (is_copy ? of_copy : of_chunk)(step.rank, step.chunk);
      if (is_send(step.op)) {
        lent.push_back(index);
        continue;
      }
      for (int send : lent)
        if (!happens_before(replay_.partners[send][0]))
          return at(PlanFault::overwritten_read, index, is_copy ? "the copy" : "the chunk",
                    " must not be written while rank ", plan_.steps[send].peers[0],
                    " may be reading it; got a read that began at step ", plan_.steps[send].step,
                    " and no word since that it was read");
      lent.clear();
    }
    return {};
  }

  // --- result ---

  Verdict check_sums_and_result() const {
    SymbolicRun run(plan_, replay_);
    if (const auto& fault = run.fault())
      return at(fault->is_duplicate ? PlanFault::duplicate : PlanFault::no_value, fault->step_index,
                fault->text);
    for (int chunk = 0; chunk < plan_.num_chunks; ++chunk)
      for (int rank = 0; rank < plan_.world_size; ++rank) {
        const std::string wanted = expectation(rank, chunk, run);
        if (!wanted.empty())
          return CounterExample{
              PlanFault::wrong_result, rank, -1, chunk,
              text_of("in the end rank ", rank, " must hold in chunk ", chunk, " ", wanted,
                      "; got ", run.values().to_string(run.held(rank, chunk)))};
      }
    return {};
  }

  // Describes what `rank` should hold; empty if it holds that.
  std::string expectation(int rank, int chunk, SymbolicRun& run) const {
    if (!is_promised(plan_, rank, chunk)) return "";
    const Value got = run.held(rank, chunk);
    const auto exactly = [&](Value wanted) {
      return got == wanted ? "" : run.values().to_string(wanted);
    };
    if (!adds(plan_.collective)) return exactly(run.values().leaf(contributor(plan_, chunk)));
    if (!run.values().is_complete(got)) return "every rank's contribution once";
    return plan_.collective == Collective::all_reduce ? exactly(run.held(0, chunk)) : "";
  }

  const CollectivePlan& plan_;
  int slots_;
  Replay replay_;
};

// Makes the lists of single ranks from the whole plan.
PlanOfRank by_rank(const CollectivePlan& plan) {
  std::vector<std::vector<int>> lists(plan.world_size);
  for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i)
    lists[plan.steps[i].rank].push_back(i);
  return [&plan, lists = std::move(lists)](int rank) {
    CollectivePlan part =
        empty_plan(plan.collective, plan.algorithm, {plan.world_size, rank}, plan.num_chunks);
    part.root = plan.root;
    for (int i : lists[rank]) part.steps.push_back(plan.steps[i]);
    return part;
  };
}

bool proves_by_symmetry(const PlanOfRank& plan_of, int slots) {
  const CollectivePlan first = plan_of(0);
  return !Proof(first, slots).check_lists() && is_proved_by_symmetry(first, plan_of, slots);
}

}  // namespace

std::optional<CounterExample> plan_check(const CollectivePlan& plan, int slots) {
  if (plan_shape_check(plan) || !proves_by_symmetry(by_rank(plan), slots))
    return Proof(plan, slots).run();
  return {};
}

std::optional<CounterExample> plan_check(const PlanOfRank& plan_of, int slots) {
  if (proves_by_symmetry(plan_of, slots)) return {};
  return Proof(plan_of(kAllRanks), slots).run();
}

std::optional<CounterExample> plan_shape_check(const CollectivePlan& plan) {
  return Proof(plan, 1).check_shape();
}

const char* name(PlanFault fault) {
  constexpr const char* kNames[] = {"malformed", "deadlock",  "unmatched",   "overwritten_read",
                                    "no_value",  "duplicate", "wrong_result"};
  return kNames[static_cast<std::size_t>(fault)];
}

std::ostream& operator<<(std::ostream& out, const CounterExample& example) {
  return out << name(example.fault) << ": " << example.text;
}

}  // namespace ringrad
