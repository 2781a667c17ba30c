#include "parallel/train/pipeline_clock.h"

#include <algorithm>
#include <utility>

namespace ringrad {

void PipelineClock::begin_step(Where where) {
  host_.clear();
  device_events_.clear();
  if (device_.is_cpu()) {
    comm_.barrier(where);
  } else {
    // No rank's device is done with it before all have begun; a barrier of the hosts would say nothing about them.
    comm_.all_reduce(zeros({1}, {.device = device_}, where), ReduceOp::sum, where);
    current_stream(device_).synchronize(where);
  }
  mark(where);
}

void PipelineClock::mark(Where where) {
  if (device_.is_cpu())
    host_.push_back(std::chrono::steady_clock::now());
  else
    device_events_.emplace_back(current_stream(device_), /*timing=*/true, where);
}

std::vector<double> PipelineClock::own_seconds() const {
  std::vector<double> seconds;
  for (const auto& time : host_)
    seconds.push_back(std::chrono::duration<double>(time - host_.front()).count());
  if (!device_events_.empty()) device_events_.back().synchronize();
  for (const Event& event : device_events_)
    seconds.push_back(Event::milliseconds(device_events_.front(), event) / 1e3);
  return seconds;
}

PipelineTimes PipelineClock::times(const PipelinePlan& plan, Where where) const {
  std::vector<double> own = own_seconds();
  const std::size_t num_actions = plan.actions[static_cast<std::size_t>(comm_.rank())].size();
  RINGRAD_CHECK(own.size() == num_actions + 1, ValueError, where,
                "times: there must have been a step that was measured, with ", num_actions,
                " actions; got ", own.empty() ? 0 : own.size() - 1);
  std::size_t most = 0;
  for (const auto& actions : plan.actions) most = std::max(most, actions.size() + 1);
  own.resize(most);
  const auto count = static_cast<std::int64_t>(most);
  const Options on_host{.dtype = DType::float64, .device = Device()};
  const Tensor sent = empty({count}, on_host, where);
  const Tensor all = empty({comm_.world_size(), count}, on_host, where);
  std::copy(own.begin(), own.end(), sent.data<double>());
  comm_.all_gather(all, sent, where);

  std::vector<std::vector<PipelineTimes::Span>> spans(plan.actions.size());
  for (std::size_t device = 0; device < spans.size(); ++device) {
    const double* const marks = all.data<double>() + device * most;
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i)
      spans[device].push_back({marks[i], marks[i + 1]});
  }
  return times_of_spans(plan, std::move(spans));
}

}  // namespace ringrad
