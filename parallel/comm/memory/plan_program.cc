#include "ringrad/parallel/comm/memory/plan_program.h"

#include <algorithm>
#include <map>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/chunk_table.h"
#include "ringrad/parallel/plan/collective/happens_before.h"
#include "ringrad/parallel/plan/collective/replay.h"

namespace ringrad {
namespace {

class Compiler {
 public:
  explicit Compiler(const CollectivePlan& plan)
      : plan_(plan),
        run_(replay(plan, 1)),
        uses_(plan),
        progress_(plan.steps.size()),
        made_by_(plan.steps.size(), -1),
        instructions_(plan.steps.size()),
        relayed_(plan),
        copies_(plan),
        num_staged_(plan.world_size, 0),
        writes_staging_(plan.world_size, false) {}

  PlanPrograms compile() {
    place_chunks();
    translate_steps();
    mark_completing_sums();
    deliver_sums();
    return assemble();
  }

 private:
  bool is_staged(int send) const {
    return send >= 0 && plan_.steps[send].op == StepOp::send_staged;
  }

  // --- Where chunks lie ---

  bool is_exchange() const { return plan_.collective == Collective::all_to_all; }

  ChunkPlace place_of(int rank, int chunk) const {
    if (!is_exchange()) return {Area::buffer, chunk};
    const int from = chunk / plan_.world_size, to = chunk % plan_.world_size;
    if (to == rank) return {Area::buffer, from};
    if (from == rank) return {Area::staging, to};
    return relayed_(rank, chunk);
  }
  ChunkPlace place_of(const Step& step) const { return place_of(step.rank, step.chunk); }

  ChunkPlace copy_of(int rank, int chunk) const {
    return is_exchange() ? copies_(rank, chunk) : ChunkPlace{Area::staging, chunk};
  }

  void place_chunks() {
    if (is_exchange()) num_staged_.assign(plan_.world_size, plan_.world_size);
    for (const Step& step : plan_.steps) {
      if (is_exchange()) place_in_exchange(step);
      const bool is_staged =
          step.op == StepOp::stage || (is_receive(step.op) && place_of(step).area == Area::staging);
      if (is_staged) writes_staging_[step.rank] = true;
      if (is_staged && !is_exchange()) num_staged_[step.rank] = plan_.num_chunks;
    }
  }

  // What a rank relays, and each copy, gets a part of its own when it is first written.
  void place_in_exchange(const Step& step) {
    const ChunkPlace unplaced;
    const int from = step.chunk / plan_.world_size, to = step.chunk % plan_.world_size;
    const bool is_relayed = from != step.rank && to != step.rank && is_receive(step.op);
    if (!is_relayed && step.op != StepOp::stage) return;
    ChunkPlace& place = (is_relayed ? relayed_ : copies_)(step.rank, step.chunk);
    if (place == unplaced) place = {Area::staging, num_staged_[step.rank]++};
  }

  // --- What ranks do ---

  void translate_steps() {
    std::vector<std::uint64_t> length(plan_.world_size, 0);
    ChunkTable<int> latest_write(plan_, -1);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      progress_[i] = ++length[step.rank];
      if (step.op == StepOp::send) made_by_[i] = latest_write(step.rank, step.chunk);
      if (is_receive(step.op)) latest_write(step.rank, step.chunk) = static_cast<int>(i);
      if (step.op != StepOp::send_staged)
        uses_(step.rank, step.chunk).push_back(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      Instruction& instruction = instructions_[i];
      instruction.op = step.op;
      instruction.step = step.step;
      instruction.chunk = step.chunk;
      instruction.place = place_of(step);
      instruction.copy = copy_of(step.rank, step.chunk);
      if (!is_receive(step.op)) continue;
      for (std::size_t t = 0; t < step.peers.size(); ++t) {
        const int send = run_.partners[i][t], peer = step.peers[t];
        instruction.terms.push_back(
            {{peer, send < 0 ? 0 : progress_[send]},
             is_staged(send) ? copy_of(peer, step.chunk) : place_of(peer, step.chunk)});
      }
    }
  }

  // Counting contributions is enough: the plan is proved, so none is in a sum twice. A sum of one
  // term is a copy, and completes nothing.
  void mark_completing_sums() {
    ChunkTable<int> held(plan_, 1), staged(plan_, 0);
    for (int index : run_.order) {
      const Step& step = plan_.steps[index];
      if (step.op == StepOp::stage) staged(step.rank, step.chunk) = held(step.rank, step.chunk);
      if (!is_receive(step.op)) continue;
      int total = 0;
      for (std::size_t t = 0; t < step.peers.size(); ++t)
        total += (is_staged(run_.partners[index][t]) ? staged : held)(step.peers[t], step.chunk);
      held(step.rank, step.chunk) = total;
      instructions_[index].completes = step.peers.size() > 1 && total == plan_.world_size;
    }
  }

  // What a sum's receivers may get at once is decided where the run makes the sum.
  void deliver_sums() {
    std::vector<std::vector<int>> receives(plan_.steps.size());  // (steps) that want the sum
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (step.op != StepOp::recv || is_staged(run_.partners[i][0])) continue;
      const int sum = made_by_[run_.partners[i][0]];
      if (sum >= 0 && plan_.steps[sum].op == StepOp::recv_reduce)
        receives[sum].push_back(static_cast<int>(i));
    }
    HappensBefore happens_before(plan_, run_);
    for (const int sum : run_.order) {
      happens_before.advance(sum);
      for (const int receive : receives[sum]) {
        const Step& step = plan_.steps[receive];
        if (!is_free(step.rank, receive, sum, happens_before)) continue;
        instructions_[receive].delivered = true;
        instructions_[sum].deliver_to.push_back({step.rank, place_of(step)});
      }
    }
  }

  // True if by the time of step `sum` no rank will use what `rank` holds in the chunk before its
  // step `receive` replaces it. The sum itself may read it: it reads each element before it writes
  // it.
  bool is_free(int rank, int receive, int sum, const HappensBefore& happens_before) {
    for (int use : uses_(rank, plan_.steps[receive].chunk)) {
      if (use == receive) break;
      if (!happens_before(use)) return false;
      if (plan_.steps[use].op != StepOp::send) continue;
      const int reader = run_.partners[use][0];
      if (reader != sum && !happens_before(reader)) return false;
    }
    return true;
  }

  PlanPrograms assemble() {
    PlanPrograms programs;
    programs.num_parts =
        plan_.collective == Collective::all_to_all ? plan_.world_size : plan_.num_chunks;
    programs.has_shares = plan_.collective == Collective::reduce_scatter ||
                          plan_.collective == Collective::all_gather ||
                          plan_.collective == Collective::all_to_all;
    programs.ranks.resize(plan_.world_size);
    std::vector<std::map<int, std::uint64_t>> last_reads(plan_.world_size);  // by reader
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const int rank = plan_.steps[i].rank;
      for (const Term& term : instructions_[i].terms)
        if (term.ready.rank != rank && !instructions_[i].delivered)
          last_reads[term.ready.rank][rank] = progress_[i];
      programs.max_length = std::max(programs.max_length, progress_[i]);
      if (instructions_[i].op == StepOp::recv_reduce && !instructions_[i].completes)
        programs.has_partial_sums = true;
      programs.ranks[rank].instructions.push_back(std::move(instructions_[i]));
    }
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      PlanProgram& program = programs.ranks[rank];
      const auto& list = program.instructions;
      const auto receive = std::find_if(
          list.begin(), list.end(), [](const Instruction& step) { return is_receive(step.op); });
      program.num_leading = static_cast<int>(receive - list.begin());
      program.num_staged = num_staged_[rank];
      program.writes_staging = writes_staging_[rank];
      program.publications = publications_of(program);
      for (const auto& [reader, progress] : last_reads[rank])
        program.last_reads.push_back({reader, progress});
    }
    return programs;
  }

  static std::vector<std::uint64_t> publications_of(const PlanProgram& program) {
    const auto& list = program.instructions;
    std::vector<std::uint64_t> publications{static_cast<std::uint64_t>(program.num_leading)};
    for (std::size_t i = program.num_leading; i < list.size(); ++i) {
      const bool is_last = i + 1 == list.size();
      if (is_last || (is_send(list[i].op) && !is_send(list[i + 1].op)))
        publications.push_back(i + 1);
    }
    return publications;
  }

  const CollectivePlan& plan_;
  const Replay run_;
  ChunkTable<std::vector<int>> uses_;
  std::vector<std::uint64_t> progress_;      // (steps) of its rank, once the step is done
  std::vector<int> made_by_;                 // (steps) a send's: the receive that made its chunk
  std::vector<Instruction> instructions_;    // (steps)
  ChunkTable<ChunkPlace> relayed_, copies_;  // of an all_to_all
  std::vector<int> num_staged_;              // (world_size)
  std::vector<bool> writes_staging_;         // (world_size)
};

}  // namespace

namespace {

// Fowler, Noll and Vo's hash of what the ranks do; never 0, which stands for no plan.
std::uint64_t fingerprint_of(const CollectivePlan& plan) {
  std::uint64_t hash = 14695981039346656037u;
  const auto take = [&](int number) {
    hash = (hash ^ static_cast<std::uint32_t>(number)) * 1099511628211u;
  };
  take(plan.num_chunks);
  for (const Step& step : plan.steps) {
    take(step.rank);
    take(static_cast<int>(step.op));
    take(step.chunk);
    for (int peer : step.peers) take(peer);
  }
  return std::max<std::uint64_t>(hash, 1);
}

}  // namespace

PlanPrograms compile(const CollectivePlan& plan, Where where) {
  const auto example = plan_check(plan);
  RINGRAD_CHECK(!example, ValueError, where, "compile: the plan '", plan.algorithm,
                "' must be proved; got ", *example);
  PlanPrograms programs = Compiler(plan).compile();
  programs.algorithm = plan.algorithm;
  programs.fingerprint = fingerprint_of(plan);
  return programs;
}

}  // namespace ringrad
