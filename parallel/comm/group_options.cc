#include "ringrad/parallel/comm/group_options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ringrad/parallel/comm/job/flight_recorder.h"

namespace ringrad {
namespace {

constexpr std::chrono::nanoseconds kLongestSilence = std::chrono::minutes(1);

}  // namespace

void check_options(int world_size, const GroupOptions& options, Where where) {
  RINGRAD_CHECK(world_size >= 1 && world_size <= kMaxRanks, ValueError, where,
                "group: world_size must be in [1, ", kMaxRanks, "]; got ", world_size);
  RINGRAD_CHECK(options.deadline > options.deadline.zero(), ValueError, where,
                "group: the deadline must be positive; got ", options.deadline.count(), " ns");
  RINGRAD_CHECK(options.verdict_time > options.verdict_time.zero(), ValueError, where,
                "group: verdict_time must be positive; got ", options.verdict_time.count(), " ns");
  RINGRAD_CHECK(options.silence >= options.silence.zero(), ValueError, where,
                "group: silence must not be negative; got ", options.silence.count(), " ns");
  check_record_folder(where);
}

std::chrono::nanoseconds longest_silence(const GroupOptions& options) {
  if (options.silence > options.silence.zero()) return options.silence;
  const std::chrono::nanoseconds least = options.verdict_time * 7 / 10;
  return std::clamp<std::chrono::nanoseconds>(options.deadline / 4, least,
                                              std::max(least, kLongestSilence));
}

std::shared_ptr<ProgramCache> make_programs(int world_size, const GroupOptions& options,
                                            Where where) {
  check_options(world_size, options, where);
  const int most_segments = kMaxPlanChunks / world_size;
  RINGRAD_CHECK(options.segments >= 0 && options.segments <= most_segments, ValueError, where,
                "group: segments must be in [0, ", most_segments, "] for ", world_size,
                " ranks; got ", options.segments);
  std::map<Collective, Planner> planners = {{Collective::all_reduce, options.all_reduce},
                                            {Collective::reduce_scatter, options.reduce_scatter},
                                            {Collective::all_gather, options.all_gather},
                                            {Collective::broadcast, options.broadcast},
                                            {Collective::reduce, options.reduce},
                                            {Collective::all_to_all, options.all_to_all}};
  if (options.links) {
    const auto check_cost = [&](const char* name, double cost) {
      RINGRAD_CHECK(cost >= 0, ValueError, where,
                    "group: the costs of links must not be negative; got ", name, ' ', cost);
    };
    check_cost("alpha", options.links->within_host.alpha_s);
    check_cost("beta", options.links->within_host.beta_s_per_byte);
    check_cost("gamma", options.links->gamma_s_per_byte);
  }
  auto programs = std::make_shared<ProgramCache>(world_size, std::move(planners), options.order);
  if (options.links)
    for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda})
      programs->set_links(device, *options.links);
  return programs;
}

}  // namespace ringrad
