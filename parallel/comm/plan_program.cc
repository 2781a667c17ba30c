#include "parallel/comm/plan_program.h"

#include <algorithm>
#include <map>

#include "parallel/plan/check.h"
#include "parallel/plan/happens_before.h"
#include "parallel/plan/replay.h"

namespace ringrad {
namespace {

class Compiler {
 public:
  explicit Compiler(const CollectivePlan& plan)
      : plan_(plan),
        run_(replay(plan, 1)),
        happens_before_(plan, run_),
        uses_(static_cast<std::size_t>(plan.world_size) * plan.num_chunks),
        progress_(plan.steps.size()),
        instructions_(plan.steps.size()) {}

  PlanPrograms compile() {
    translate_steps();
    mark_completing_sums();
    deliver_sums();
    return assemble();
  }

 private:
  // The steps of `rank` that read, lend or write `chunk`, in order.
  std::vector<int>& uses(int rank, int chunk) {
    return uses_[static_cast<std::size_t>(rank) * plan_.num_chunks + chunk];
  }

  void translate_steps() {
    std::vector<std::uint64_t> length(plan_.world_size, 0);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      progress_[i] = ++length[plan_.steps[i].rank];
      uses(plan_.steps[i].rank, plan_.steps[i].chunk).push_back(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      instructions_[i].op = step.op;
      instructions_[i].chunk = step.chunk;
      if (step.op == StepOp::send) continue;
      for (std::size_t t = 0; t < step.peers.size(); ++t) {
        const int send = run_.partners[i][t];
        instructions_[i].terms.push_back({step.peers[t], send < 0 ? 0 : progress_[send]});
      }
    }
  }

  // Counting contributions is enough: the plan is proved, so none is in a sum twice.
  void mark_completing_sums() {
    std::vector<int> held(uses_.size(), 1);
    for (int index : run_.order) {
      const Step& step = plan_.steps[index];
      if (step.op == StepOp::send) continue;
      int total = 0;
      for (int peer : step.peers)
        total += held[static_cast<std::size_t>(peer) * plan_.num_chunks + step.chunk];
      held[static_cast<std::size_t>(step.rank) * plan_.num_chunks + step.chunk] = total;
      instructions_[index].completes = step.op == StepOp::recv_reduce && total == plan_.world_size;
    }
  }

  void deliver_sums() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (step.op != StepOp::recv) continue;
      const int sum = last_write_before(run_.partners[i][0]);
      if (sum < 0 || plan_.steps[sum].op != StepOp::recv_reduce) continue;
      if (!is_free(step.rank, static_cast<int>(i), sum)) continue;
      instructions_[i].delivered = true;
      instructions_[sum].deliver_to.push_back(step.rank);
    }
  }

  // The step that gave the chunk of `send` its value, or -1 for the rank's input.
  int last_write_before(int send) {
    int write = -1;
    for (int use : uses(plan_.steps[send].rank, plan_.steps[send].chunk)) {
      if (use == send) break;
      if (plan_.steps[use].op != StepOp::send) write = use;
    }
    return write;
  }

  // True if by the time of step `sum` nobody will use what `rank` holds in the chunk before its
  // step `receive` replaces it. The sum itself may read it: it reads each element before it writes
  // it.
  bool is_free(int rank, int receive, int sum) {
    for (int use : uses(rank, plan_.steps[receive].chunk)) {
      if (use == receive) break;
      if (!happens_before_(use, sum)) return false;
      if (plan_.steps[use].op != StepOp::send) continue;
      const int reader = run_.partners[use][0];
      if (reader != sum && !happens_before_(reader, sum)) return false;
    }
    return true;
  }

  PlanPrograms assemble() {
    PlanPrograms programs;
    programs.num_chunks = plan_.num_chunks;
    programs.ranks.resize(plan_.world_size);
    std::vector<std::map<int, std::uint64_t>> last_reads(plan_.world_size);  // by reader
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const int rank = plan_.steps[i].rank;
      for (const Milestone& term : instructions_[i].terms)
        if (term.rank != rank && !instructions_[i].delivered)
          last_reads[term.rank][rank] = progress_[i];
      programs.max_length = std::max(programs.max_length, progress_[i]);
      programs.ranks[rank].instructions.push_back(std::move(instructions_[i]));
    }
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      PlanProgram& program = programs.ranks[rank];
      const auto& list = program.instructions;
      const auto receive = std::find_if(list.begin(), list.end(), [](const Instruction& step) {
        return step.op != StepOp::send;
      });
      program.num_leading_sends = static_cast<int>(receive - list.begin());
      for (const auto& [reader, progress] : last_reads[rank])
        program.last_reads.push_back({reader, progress});
    }
    return programs;
  }

  const CollectivePlan& plan_;
  const Replay run_;
  const HappensBefore happens_before_;
  std::vector<std::vector<int>> uses_;     // (world_size, num_chunks)
  std::vector<std::uint64_t> progress_;    // (steps) of its rank, once the step is done
  std::vector<Instruction> instructions_;  // (steps)
};

}  // namespace

PlanPrograms compile(const CollectivePlan& plan, Where where) {
  const auto example = plan_check(plan);
  RINGRAD_CHECK(!example, ValueError, where, "compile: the plan '", plan.algorithm,
                "' must be proved; got ", *example);
  for (const Step& step : plan.steps)
    RINGRAD_CHECK(is_receive(step.op) || step.op == StepOp::send, ValueError, where,
                  "compile: staged copies are not supported yet; got ", step);
  return Compiler(plan).compile();
}

}  // namespace ringrad
