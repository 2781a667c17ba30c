#include "ringrad/parallel/train/pipeline/pipeline_clock.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ringrad/parallel/comm/common/hosts.h"

namespace ringrad {
namespace {

// Processes of one boot read the same steady clock. Returns a hash of the boot's name, in as many
// bits as a double holds, or `unknown` if it has none.
double clock_of_machine(double unknown) {
  const std::string boot = boot_id();
  return boot.empty() ? unknown : static_cast<double>(std::hash<std::string>()(boot) >> 11);
}

}  // namespace

void PipelineClock::begin_step(Where where) {
  host_.clear();
  device_events_.clear();
  if (device_.is_cpu()) {
    comm_.barrier(where);
  } else {
    // No rank's device finishes this before all have begun; a barrier between hosts would say
    // nothing about devices.
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

// A rank's record of its latest step.
struct PipelineClock::Reading {
  double clock;                 // identifies the clock: only times of one clock may be compared
  double begin_s = 0;           // by that clock
  std::vector<double> seconds;  // since then
};

PipelineClock::Reading PipelineClock::own() const {
  Reading reading = {.clock = -1.0 - comm_.rank(), .seconds = {}};  // shared with no other rank
  if (!host_.empty()) {
    const auto since = [](auto time, auto begin) {
      return std::chrono::duration<double>(time - begin).count();
    };
    reading.clock = clock_of_machine(reading.clock);
    reading.begin_s = since(host_.front(), std::chrono::steady_clock::time_point());
    for (const auto& time : host_) reading.seconds.push_back(since(time, host_.front()));
  }
  if (!device_events_.empty()) device_events_.back().synchronize();
  for (const Event& event : device_events_)
    reading.seconds.push_back(Event::milliseconds(device_events_.front(), event) / 1e3);
  return reading;
}

PipelineTimes PipelineClock::times(const PipelinePlan& plan, Where where) const {
  const Reading reading = own();
  const std::size_t num_actions = plan.actions[static_cast<std::size_t>(comm_.rank())].size();
  RINGRAD_CHECK(reading.seconds.size() == num_actions + 1, ValueError, where,
                "times: there must have been a step that was measured, with ", num_actions,
                " actions; got ", reading.seconds.empty() ? 0 : reading.seconds.size() - 1);
  std::size_t most = 0;
  for (const auto& actions : plan.actions) most = std::max(most, actions.size() + 1);
  const std::size_t row = 2 + most;  // clock, begin, seconds
  const Options on_host{.dtype = DType::float64, .device = Device()};
  const Tensor sent = zeros({static_cast<std::int64_t>(row)}, on_host, where);
  const Tensor all = empty({comm_.world_size(), static_cast<std::int64_t>(row)}, on_host, where);
  sent.data<double>()[0] = reading.clock;
  sent.data<double>()[1] = reading.begin_s;
  std::copy(reading.seconds.begin(), reading.seconds.end(), sent.data<double>() + 2);
  comm_.all_gather(all, sent, where);

  const auto of_rank = [&](std::size_t rank) { return all.data<double>() + rank * row; };
  std::map<double, double> first_s;  // by clock
  for (std::size_t rank = 0; rank < plan.actions.size(); ++rank) {
    const double begin_s = of_rank(rank)[1];
    double& first = first_s.emplace(of_rank(rank)[0], begin_s).first->second;
    first = std::min(first, begin_s);
  }
  std::vector<std::vector<PipelineTimes::Span>> spans(plan.actions.size());
  for (std::size_t rank = 0; rank < spans.size(); ++rank) {
    const double late_s = of_rank(rank)[1] - first_s[of_rank(rank)[0]];
    const double* const marks = of_rank(rank) + 2;
    for (std::size_t i = 0; i < plan.actions[rank].size(); ++i)
      spans[rank].push_back({late_s + marks[i], late_s + marks[i + 1]});
  }
  return times_of_spans(plan, std::move(spans));
}

}  // namespace ringrad
