#include "ringrad/parallel/comm/memory/measure_links.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"

namespace ringrad {
namespace {

constexpr DType kDType = DType::int32;

// Large enough that copying outweighs waiting, small enough for caches; and how often it is moved.
struct Effort {
  std::int64_t count;
  int samples, calls;

  double bytes() const {
    return static_cast<double>(count) * static_cast<double>(size_bytes(kDType));
  }
};

Effort effort_on(DeviceType device) {
  if (device == DeviceType::cpu) return {1 << 15, 4, 8};
  return is_cuda_simulated() ? Effort{1 << 16, 1, 2} : Effort{1 << 21, 3, 4};
}

// Others wait while one rank simulates the GPUs of all of them; a deadline was not meant for that.
constexpr auto kSimulatedTime = std::chrono::seconds(30);

// Seconds of plans of nothing, and of S bytes.
struct Times {
  double gather_0, gather_s, reduce_0, reduce_s;
};

// The links that this process has measured, on CPUs.
class Known {
 public:
  using Kind = std::pair<bool, int>;  // is_one_process, world_size

  std::optional<CostModel> find(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(kind);
    return found == links_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const Kind& kind, const CostModel& links) {
    const std::lock_guard lock(mutex_);
    links_.insert_or_assign(kind, links);
  }

 private:
  std::mutex mutex_;
  std::map<Kind, CostModel> links_;
};

Known& known() {
  static Known links;
  return links;
}

// The time of plans on `buffer`, with which GPUs are measured.
Times measure(RankSession& session, PlanRunner& runner, Operation operation, std::byte* buffer) {
  operation.call.reduce = ReduceOp::sum;
  const int n = session.world_size();
  const PlanPrograms& gather = session.compiled(ring_all_gather(n), operation.where);
  const PlanPrograms& reduce = session.compiled(ring_all_reduce(n), operation.where);
  const Effort effort = effort_on(operation.call.device);
  const auto seconds = [&](const PlanPrograms& plan, std::int64_t count) {
    const PlanData data{.buffer = buffer, .dtype = kDType, .count = count};
    double least = std::numeric_limits<double>::infinity();
    runner.run(plan, operation, data);  // pages and caches
    for (int sample = 0; sample < effort.samples; ++sample)
      least = std::min(least, runner.seconds(operation, [&] {
        for (int call = 0; call < effort.calls; ++call) runner.run(plan, operation, data);
      }));
    return least / effort.calls;
  };
  return {.gather_0 = seconds(gather, n),
          .gather_s = seconds(gather, effort.count),
          .reduce_0 = seconds(reduce, n),
          .reduce_s = seconds(reduce, effort.count)};
}

// Nothing is free or faster than a terabyte per second, even if noise says so, or a host that needs
// longer to queue work than a GPU needs to do it.
CostModel model_of(double alpha, double beta, double gamma) {
  constexpr double kLeastAlpha = 1e-8, kLeastPerByte = 1e-12;
  const LinkCost link{.alpha_s = std::max(alpha, kLeastAlpha),
                      .beta_s_per_byte = std::max(beta, kLeastPerByte)};
  return {.within_host = link,
          .between_hosts = link,
          .gamma_s_per_byte = std::max(gamma, kLeastPerByte),
          .wiring = Wiring::reads};
}

CostModel fit(const Times& times, int world_size, const Effort& effort) {
  const double messages = world_size - 1;
  const double bytes = messages / world_size * effort.bytes();
  const double alpha = (times.reduce_0 - times.gather_0) / messages;
  const double beta = (times.gather_s - times.gather_0) / bytes;
  return model_of(alpha, beta, (times.reduce_s - times.reduce_0) / bytes - 2 * beta);
}

// The slowest rank's times of the plans.
CostModel measure_plans(RankSession& session, PlanRunner& runner, Operation& operation,
                        std::byte* buffer) {
  Times slowest{};
  const Times times = measure(session, runner, operation, buffer);
  for (const Times& of_rank : session.exchange_eager(operation, times))
    slowest = {.gather_0 = std::max(slowest.gather_0, of_rank.gather_0),
               .gather_s = std::max(slowest.gather_s, of_rank.gather_s),
               .reduce_0 = std::max(slowest.reduce_0, of_rank.reduce_0),
               .reduce_s = std::max(slowest.reduce_s, of_rank.reduce_s)};
  return fit(slowest, session.world_size(), effort_on(operation.call.device));
}

// The least time of one of `calls` repetitions.
template <class Work>
double least_seconds(const Effort& effort, Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int sample = 0; sample < effort.samples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < effort.calls; ++call) work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count() / effort.calls);
  }
  return least;
}

// Rank 1 measures messages to and from rank 0, and reads and adds what lies in rank 0's buffer. The
// others wait for what it says.
CostModel measure_pair(RankSession& session, Operation& operation, std::byte* buffer) {
  const Effort effort = effort_on(DeviceType::cpu);
  const auto bytes = static_cast<std::size_t>(effort.bytes());
  const auto num_turns = static_cast<std::uint64_t>(effort.samples * effort.calls);
  RankGroup& group = session.group();
  const std::uint64_t entered = session.reserve(num_turns);
  CostModel model;
  const RankGroup::Inside inside(group, operation);
  session.enter(operation, {.buffer = group.distance(session.rank(), buffer)}, entered, 0);
  const auto wait_for = [&](int peer, std::uint64_t turn) {
    group.wait(operation, peer, entered + turn, entered);
  };
  if (session.rank() == 0)
    for (std::uint64_t turn = 1; turn <= num_turns; ++turn) {
      wait_for(1, turn);
      group.publish(entered + turn);
    }
  if (session.rank() == 1) {
    std::uint64_t turn = 0;
    const double there_and_back = least_seconds(effort, [&] {
      group.publish(entered + ++turn);
      wait_for(0, turn);
    });
    std::byte* const remote = group.address(0, group.buffer_of(0));
    const std::byte* const terms[] = {remote, buffer};
    std::byte* const outs[] = {buffer};
    const double copying = least_seconds(effort, [&] { std::memcpy(buffer, remote, bytes); });
    const double adding = least_seconds(
        effort, [&] { reduce_terms(kDType, ReduceOp::sum, terms, outs, effort.count, 1); });
    const double beta = copying / effort.bytes();
    model = model_of(there_and_back / 2, beta, adding / effort.bytes() - beta);
  }
  return session.exchange_eager(operation, model)[1];
}

}  // namespace

void share_links(RankSession& session, PlanRunner& runner, Operation& operation) {
  const DeviceType device = operation.call.device;
  if (session.links(device) || session.world_size() == 1) return;
  const bool is_simulated = device == DeviceType::cuda && is_cuda_simulated();
  if (is_simulated && session.options().deadline < kSimulatedTime)
    operation.deadline = std::chrono::steady_clock::now() + kSimulatedTime;
  const int n = session.world_size();
  const Known::Kind kind{session.memory()->is_one_process(), n};
  const bool is_cpu = device == DeviceType::cpu;

  std::shared_ptr<std::byte> buffer;
  try {
    buffer = runner.allocate(static_cast<std::size_t>(effort_on(device).bytes()), operation.where);
  } catch (const OutOfMemoryError&) {  // the call itself may need less
  }

  // Ranks may have measured in different groups, so rank 0 says whether it is to be done, and what
  // is known.
  struct Word {
    bool is_known, has_room;
    CostModel links;
  };
  const std::optional<CostModel> own = is_cpu ? known().find(kind) : std::nullopt;
  const std::vector<Word> words = session.exchange_eager(
      operation, Word{own.has_value(), buffer != nullptr, own.value_or(CostModel())});
  Word word = words[0];
  const bool all_have_room =
      std::all_of(words.begin(), words.end(), [](const Word& one) { return one.has_room; });
  if (!word.is_known && all_have_room) {
    runner.clear(buffer.get(), static_cast<std::size_t>(effort_on(device).bytes()),
                 operation.where);  // sums of unwritten memory would count as mistakes
    word.links = is_cpu ? measure_pair(session, operation, buffer.get())
                        : measure_plans(session, runner, operation, buffer.get());
    if (is_cpu) known().add(kind, word.links);
  }
  session.set_links(device, word.links);
  operation.deadline.reset();
}

}  // namespace ringrad
