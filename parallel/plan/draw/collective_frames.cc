#include "ringrad/parallel/plan/draw/collective_frames.h"

#include <algorithm>
#include <stdexcept>

#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/parallel/plan/collective/symbolic_run.h"

namespace ringrad {
namespace {

// The contributions that the collective promises to a rank in a chunk.
std::vector<int> promised_to(const CollectivePlan& plan, int rank, int chunk) {
  if (!is_promised(plan, rank, chunk)) return {};
  if (adds(plan.collective)) return first_integers(plan.world_size);
  return {contributor(plan, chunk)};
}

void add_messages(const CollectivePlan& plan, const Replay& run, int index,
                  std::vector<FrameMessage>& messages) {
  const Step& step = plan.steps[index];
  if (!is_receive(step.op)) return;
  for (const int send : run.partners[index])
    if (send >= 0)
      messages.push_back({plan.steps[send].rank, step.rank, step.chunk,
                          step.op == StepOp::recv_reduce,
                          plan.steps[send].op == StepOp::send_staged});
}

std::optional<CounterExample> check_for_drawing(const CollectivePlan& plan) {
  auto fault = plan_check(plan);
  if (!fault || fault->fault != PlanFault::malformed) return fault;
  throw std::invalid_argument("collective drawing: the plan must not be malformed; got " +
                              fault->text);
}

}  // namespace

CollectiveFrames collective_frames(const CollectivePlan& plan) {
  CollectiveFrames film{.frames = {}, .promised = {}, .fault = check_for_drawing(plan)};
  const Replay replayed = replay(plan, 1);
  SymbolicRun run(plan, replayed);
  CollectiveFrame frame{.slot = -1, .messages = {}, .ranks = {}};
  for (int rank = 0; rank < plan.world_size; ++rank)
    for (int chunk = 0; chunk < plan.num_chunks; ++chunk) {
      frame.ranks.push_back(run.values().contributors(run.input(rank, chunk)));
      film.promised.push_back(promised_to(plan, rank, chunk));
    }
  film.frames.push_back(frame);

  std::vector<int> by_slot = first_integers(static_cast<int>(plan.steps.size()));
  std::stable_sort(by_slot.begin(), by_slot.end(),
                   [&](int a, int b) { return plan.steps[a].step < plan.steps[b].step; });
  const bool fails_early = film.fault && film.fault->step_index >= 0;
  for (auto next = by_slot.begin(); next != by_slot.end();) {
    frame.slot = plan.steps[*next].step;
    if (fails_early && frame.slot > plan.steps[film.fault->step_index].step) break;
    frame.messages.clear();
    for (; next != by_slot.end() && plan.steps[*next].step == frame.slot; ++next) {
      add_messages(plan, replayed, *next, frame.messages);
      const auto& [slot, rank, op, chunk, peers] = plan.steps[*next];
      if (run.made(*next) != SymbolicValues::kNone)
        frame.ranks[static_cast<std::size_t>(rank) * plan.num_chunks + chunk] =
            run.values().contributors(run.made(*next));
    }
    film.frames.push_back(frame);
  }
  return film;
}

std::string ranks_label(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    const bool is_range = last >= i + 2;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (is_range) text += "-" + std::to_string(ranks[last]);
    i = is_range ? last + 1 : i + 1;
  }
  return text.empty() ? text : "{" + text + "}";
}

}  // namespace ringrad
