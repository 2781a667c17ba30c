#include "ringrad/parallel/plan/collective/symbolic_run.h"

namespace ringrad {

SymbolicRun::SymbolicRun(const CollectivePlan& plan, const Replay& run)
    : plan_(plan),
      run_(run),
      values_(plan.world_size),
      written_(plan, SymbolicValues::kNone),
      staged_(plan, SymbolicValues::kNone),
      made_(plan.steps.size(), SymbolicValues::kNone) {
  for (int index : run.order)
    if ((fault_ = run_step(index))) return;
}

SymbolicRun::Value SymbolicRun::input(int rank, int chunk) const {
  const bool contributes = adds(plan_.collective) || rank == contributor(plan_, chunk);
  return contributes ? values_.leaf(rank) : SymbolicValues::kNone;
}

std::optional<SymbolicRun::Fault> SymbolicRun::run_step(int index) {
  const Step& step = plan_.steps[index];
  const auto missing = [&](std::string text) { return Fault{index, false, std::move(text)}; };
  if (step.op == StepOp::send_staged) {
    if (staged(step.rank, step.chunk) == SymbolicValues::kNone)
      return missing("a copy must have been staged; got none yet");
    return {};
  }
  if (!is_receive(step.op)) {
    const Value value = held(step.rank, step.chunk);
    if (value == SymbolicValues::kNone) return missing("the chunk must have a value; got none yet");
    if (step.op == StepOp::stage) staged_(step.rank, step.chunk) = value;
    return {};
  }
  // Senders have a value, or the run would have ended earlier: only the rank's own term can lack
  // one.
  const Value total = add_terms(index);
  if (total == SymbolicValues::kNone)
    return missing("every term must have a value; got none at rank " + std::to_string(step.rank));
  if (const int twice = values_.duplicated_rank(total); twice >= 0)
    return Fault{
        index, true,
        "rank " + std::to_string(twice) + " must contribute once; got " + values_.to_string(total)};
  written_(step.rank, step.chunk) = made_[index] = total;
  return {};
}

SymbolicRun::Value SymbolicRun::add_terms(int index) {
  const Step& step = plan_.steps[index];
  Value total = SymbolicValues::kNone;
  for (std::size_t t = 0; t < step.peers.size(); ++t) {
    const int send = run_.partners[index][t];
    const bool is_copy = send >= 0 && plan_.steps[send].op == StepOp::send_staged;
    const int peer = step.peers[t];
    const Value term = is_copy ? staged(peer, step.chunk) : held(peer, step.chunk);
    if (term == SymbolicValues::kNone) return term;
    total = total == SymbolicValues::kNone ? term : values_.sum(total, term);
  }
  return total;
}

}  // namespace ringrad
